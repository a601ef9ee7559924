// SPDX-License-Identifier: MIT
// The arguments of gemm and linear, from Python objects to a GemmCall.
#pragma once

#include <string_view>

#include "errors.hpp"
#include "tensor/tensor_import.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {

// What Python passed, in the order of the signature.
struct GemmArguments {
  nb::handle a, b;
  nb::handle bias, activation, out, out_dtype;
  float alpha, beta;
  nb::handle c, scale_a, scale_b, gate, steps;
  bool deterministic, batch_invariant;
  nb::handle recipe;
  int units;
};

enum class GemmForm : uint8_t {
  kGemm,    // b is [.., K, N]
  kLinear,  // b is a weight [N, K], a may be a vector
};

enum class Purpose : uint8_t {
  kRun,       // D must have memory: out's, or a new one
  kDescribe,  // addresses may be missing
};

struct ParsedGemm {
  GemmCall call;
  Exec exec;
  nb::object result;  // what the caller gets: out, or a new tensor
  Framework framework = Framework::kOther;
  bool made_result = false;
  Keepers keepers;
};

void parse_gemm(const char* op, GemmForm form, Purpose purpose, const GemmArguments& arguments, ParsedGemm& parsed);

}  // namespace tilewright::python
