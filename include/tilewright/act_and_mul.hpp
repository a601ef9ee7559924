// SPDX-License-Identifier: MIT
// act_and_mul: y = activation(gate) * up along rows, and activations alone.
//
// Shapes: out [..., N]; x [..., N] without a gate, else [..., 2 N]: gates first and then what they multiply, or each gate beside
// its own. Rows have their elements next to each other, outer dimensions any strides that leave at most three apart. Dtypes: x
// f32, f16, bf16; out these, or e4m3, e5m2 (OCP and FNUZ), i8, e2m1 with scales (docs/quantisation.md). Arithmetic: f32.
// Sizes: N is exact, the number of rows bucketed. Size 0 is legal.
// Aliasing: out may be x, or with a separated gate the first half of it, of the same dtype; else it may overlap nothing.
// docs/act_and_mul.md has the contract.
#pragma once

#include <string>

#include "gemm/gemm_args.hpp"
#include "tile/common/quantise.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct ActAndMulCall {
  TensorView x, out;
  Activation activation = Activation::kSilu;  // kClamp is refused: `limit` does that
  GateMode gate = GateMode::kSeparated;       // kNone: the activation alone
  bool squared = false;                       // the activation's square: relu squared
  float limit = 0;                            // gates are at most this, ups within +-this; 0 = none
  float alpha = 1;                            // silu: gate * sigmoid(alpha * gate)
  float up_offset = 0;                        // added to ups; gpt-oss: 1, with limit 7 and alpha 1.702
  // Quantised output: as rms_norm's.
  Quantisation quant = Quantisation::kNone;
  TensorView scale;
  TensorView tensor_scale;  // f32, one element, read: what scales of e4m3 are multiples of; absent: 1
  int64_t group = 0;        // 16, 32, 64 or 128; 0 = 128, with scales of e8m0 32, of e4m3 16
  ScaleRounding rounding = ScaleRounding::kDown;
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status act_and_mul(Context& context, const ActAndMulCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status act_and_mul_prepare(Context& context, const ActAndMulCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> act_and_mul_query(Context& context, const ActAndMulCall& call,
                                                     const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> act_and_mul_explain(Context& context, const ActAndMulCall& call,
                                                       const Exec& exec = {});

// The gradient of x: gates' and ups' where x has them. Options as above; docs/act_and_mul.md has the contract. dx may be x, and without a
// gate dy.
struct ActAndMulBackwardCall {
  TensorView x{}, dy{}, dx{};  // dy is as out above, dx as x
  Activation activation = Activation::kSilu;
  GateMode gate = GateMode::kSeparated;
  bool squared = false;
  float limit = 0, alpha = 1, up_offset = 0;
  std::string recipe{};
};

// As act_and_mul and its like.
TILEWRIGHT_API Status act_and_mul_backward(Context& context, const ActAndMulBackwardCall& call, const Exec& exec = {});
TILEWRIGHT_API Status act_and_mul_backward_prepare(Context& context, const ActAndMulBackwardCall& call,
                                                   const Exec& exec = {});
TILEWRIGHT_API Result<QueryResult> act_and_mul_backward_query(Context& context, const ActAndMulBackwardCall& call,
                                                              const Exec& exec = {});
TILEWRIGHT_API Result<std::string> act_and_mul_backward_explain(Context& context, const ActAndMulBackwardCall& call,
                                                                const Exec& exec = {});

}  // namespace tilewright
