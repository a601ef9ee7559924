// SPDX-License-Identifier: MIT
// The arguments of gemm and linear, from Python objects to a GemmCall.
#pragma once

#include <array>
#include <string_view>

#include "call/signature.hpp"
#include "errors.hpp"
#include "tensor/tensor_import.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {

// Those from kStepTensors to kBatch are the torch operators' only, those behind them grouped_gemm's.
enum Parameter : int {
  kA,
  kB,
  kBias,
  kActivation,
  kOut,
  kOutDtype,
  kAlpha,
  kBeta,
  kC,
  kScaleA,
  kScaleB,
  kScaleGroupA,
  kScaleGroupB,
  kZeroB,
  kBDtype,
  kGate,
  kSteps,
  kDeterministic,
  kBatchInvariant,
  kAllowTf32,
  kAllowFastAccum,
  kRecipe,
  kUnits,
  kProgrammaticEdge,
  kStepTensors,  // what the steps "add" and "mul" take, in order: a torch schema has no tuples
  kColumns,      // N of packed bytes: a fake tensor has no header to read
  kBatch,        // batch of packed bytes
  kMode,
  kSizes,
  kOffsets,
  kAlignment,
  kGather,
  kScatter,
  kStatus,
  kExpectedRows,
  kParameters,
};

enum class GemmForm : uint8_t {
  kGemm,     // b is [.., K, N]
  kLinear,   // b is a weight [N, K], a may be a vector
  kGrouped,  // neither broadcasts: their shapes say what groups are
};

enum class WeightForm : uint8_t {
  kTensor,       // a tensor, or PackedWeights
  kPackedBytes,  // a uint8 tensor that holds what PackedWeights.to_bytes() gives
};

enum class Purpose : uint8_t {
  kRun,       // D must have memory: out's, or a new one
  kOperator,  // the same for a torch operator: what autograd records is decided before its kernel runs
  kDescribe,  // addresses may be missing
};

// What Python passed: borrowed, None where nothing was.
class GemmArguments {
 public:
  GemmArguments(const Signature& signature, const RawCall& call) { signature.bind(call, values_); }
  bool given(Parameter parameter) const { return values_[parameter] != nullptr && values_[parameter] != Py_None; }
  nb::handle operator[](Parameter parameter) const {
    return values_[parameter] != nullptr ? values_[parameter] : Py_None;
  }

 private:
  std::array<PyObject*, kParameters> values_;
};

struct GemmFunction {
  const char* name;  // in messages
  GemmForm form = GemmForm::kGemm;
  Purpose purpose = Purpose::kRun;
  WeightForm weight = WeightForm::kTensor;
};

struct ParsedGemm {
  GemmCall call;
  Exec exec;
  nb::object result;  // what the caller gets: out, or a new tensor
  Framework framework = Framework::kOther;
  bool made_result = false;
  ImportScope scope;
};

// A, B, the epilogue, options and the way of the call; what is left is the result. True when A came as a vector.
bool parse_all_but_result(const GemmFunction& function, const GemmArguments& arguments, ImportedTensor& a,
                          ParsedGemm& parsed);
void parse_gemm(const GemmFunction& function, const GemmArguments& arguments, ParsedGemm& parsed);

}  // namespace tilewright::python
