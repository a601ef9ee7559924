// SPDX-License-Identifier: MIT
// group_norm: y = (x - mean) / sqrt(variance + eps) * weight + bias, mean and variance of each group of C / groups channels of each image.
//
// x, out: [N, C, ...], f32, f16 or bf16, both channels first, positions contiguous (NCHW), or both channels last, channels contiguous and
// positions one stride apart (NHWC as a view of that shape). weight and bias: [C], contiguous, of any of these types. out may be x.
// Accumulation: f32, variances about means. docs/group_norm.md has the contract.
#pragma once

#include <string>

#include "gemm/gemm_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct GroupNormCall {
  TensorView x, out;
  TensorView weight, bias;  // optional
  int64_t groups = 0;       // divides C
  float eps = 1e-5f;
  Activation activation = Activation::kNone;  // of y: kNone or kSilu
  std::string recipe;                         // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status group_norm(Context& context, const GroupNormCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status group_norm_prepare(Context& context, const GroupNormCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> group_norm_query(Context& context, const GroupNormCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> group_norm_explain(Context& context, const GroupNormCall& call,
                                                      const Exec& exec = {});

// The gradients of x, weight and bias: shapes, layouts and types as above, dy and dx as x; docs/group_norm.md has the contract. dx may be
// x or dy.
struct GroupNormBackwardCall {
  TensorView x{}, dy{}, dx{};
  TensorView weight{}, bias{};    // as they were given
  TensorView dweight{}, dbias{};  // optional, written: [C]
  int64_t groups = 0;
  float eps = 1e-5f;
  Activation activation = Activation::kNone;
  std::string recipe{};
};

// As group_norm and its like.
TILEWRIGHT_API Status group_norm_backward(Context& context, const GroupNormBackwardCall& call, const Exec& exec = {});
TILEWRIGHT_API Status group_norm_backward_prepare(Context& context, const GroupNormBackwardCall& call,
                                                  const Exec& exec = {});
TILEWRIGHT_API Result<QueryResult> group_norm_backward_query(Context& context, const GroupNormBackwardCall& call,
                                                             const Exec& exec = {});
TILEWRIGHT_API Result<std::string> group_norm_backward_explain(Context& context, const GroupNormBackwardCall& call,
                                                               const Exec& exec = {});

}  // namespace tilewright
