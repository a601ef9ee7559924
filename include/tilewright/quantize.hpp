// SPDX-License-Identifier: MIT
// quantize: rows of N elements as codes, over scales that are given or found: out * scale is x, times smooth, rotated, nearly.
//
// Shapes: x, out [..., N]; smooth [N]; scale by `quant` (docs/quantisation.md). Dtypes: x f32, f16, bf16; out e4m3, e5m2 (OCP and
// FNUZ), i8, e2m1. Strides, sizes and aliasing as rms_norm's. docs/quantize.md has the contract.
#pragma once

#include <string>

#include "tile/common/quantise.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct QuantizeCall {
  TensorView x, out;
  TensorView scale;   // read (quant = kTensor) or written
  TensorView smooth;  // optional: a factor for each column of x
  Quantisation quant = Quantisation::kRow;
  int64_t group = 0;  // of kGroup 16, 32, 64 or 128; 0 = 128, with scales of e8m0 32, of e4m3 16
  // f32, one element: what scales of e4m3 are multiples of; absent: 1. Read, or found and written.
  TensorView tensor_scale;
  bool find_tensor_scale = false;
  ScaleRounding rounding = ScaleRounding::kDown;
  int64_t hadamard =
      0;  // neighbours of x * smooth that a Hadamard transform rotates: 16, 32, 64 or 128, N a multiple; 0 = none
  TensorView
      random_state;  // a seed and an offset: codes are rounded by chance; absent: to the nearest. i32 [2], or [2, 2]: the words of i64
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream. A scale of the tensor that is found stays on the device: the call can be captured.
TILEWRIGHT_API Status quantize(Context& context, const QuantizeCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status quantize_prepare(Context& context, const QuantizeCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> quantize_query(Context& context, const QuantizeCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> quantize_explain(Context& context, const QuantizeCall& call, const Exec& exec = {});

}  // namespace tilewright
