// SPDX-License-Identifier: MIT
// rms_norm: y = r / sqrt(mean(r^2) + eps) * weight + bias of each row r of N elements, r = x or x + residual.
//
// Shapes: x, residual, residual_out, out [..., N]; weight, bias, smooth [N]. Rows have their elements next to each other, outer
// dimensions any strides that leave at most three apart. Dtypes: f32, f16, bf16, each tensor its own; out also e4m3, e5m2 (OCP
// and FNUZ), i8, e2m1, with scales (docs/quantisation.md). Accumulation: f32.
// Sizes: N is exact, the number of rows bucketed. Size 0 is legal.
// Aliasing: out may be x or residual, residual_out may be x or residual, the same elements of the same dtype; nothing else
// that is written may overlap anything. docs/rms_norm.md has the contract.
#pragma once

#include <string>

#include "tile/common/quantise.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct RmsNormCall {
  TensorView x, out;
  TensorView weight, bias;  // optional
  TensorView residual,
      residual_out;   // optional; x + residual, rounded to the residual's dtype, is normalised, and written
  TensorView smooth;  // optional: a factor for each column, behind weight and bias
  float eps = 1e-6f;
  bool unit_offset = false;  // the weight is 1 + weight (Gemma)
  bool round_before_weight =
      false;  // r / sqrt(..) is rounded to x's dtype before the weight (T5, Llama of transformers)
  // Quantised output: the tensor's scale (f32, one element, read), or one a row ([...] or [..., 1]), or one a group of `group`
  // neighbours ([..., ceil(N / group)], f32, e8m0 or e4m3), both written. A value is code * scale.
  Quantisation quant = Quantisation::kNone;
  TensorView scale;
  TensorView tensor_scale;  // f32, one element, read: what scales of e4m3 are multiples of; absent: 1
  int64_t group = 0;        // 16, 32, 64 or 128; 0 = 128, with scales of e8m0 32, of e4m3 16
  ScaleRounding rounding = ScaleRounding::kDown;
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status rms_norm(Context& context, const RmsNormCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status rms_norm_prepare(Context& context, const RmsNormCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> rms_norm_query(Context& context, const RmsNormCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> rms_norm_explain(Context& context, const RmsNormCall& call, const Exec& exec = {});

// The gradients of x, of the weight and of the bias: shapes and types as above; docs/norm_backward.md has the contract. x is what was
// normalised, where there was a residual the sum, and dx is the gradient of both. dx may be x, dy or dresidual.
struct RmsNormBackwardCall {
  TensorView x{}, dy{}, dx{};
  TensorView weight{};            // as it was given
  TensorView dresidual{};         // optional, of dx's dtype: the gradient of residual_out, which is added to dx
  TensorView dweight{}, dbias{};  // optional, written: [N]
  float eps = 1e-6f;
  bool unit_offset = false;
  std::string recipe{};
};

// As rms_norm and its like.
TILEWRIGHT_API Status rms_norm_backward(Context& context, const RmsNormBackwardCall& call, const Exec& exec = {});
TILEWRIGHT_API Status rms_norm_backward_prepare(Context& context, const RmsNormBackwardCall& call,
                                                const Exec& exec = {});
TILEWRIGHT_API Result<QueryResult> rms_norm_backward_query(Context& context, const RmsNormBackwardCall& call,
                                                           const Exec& exec = {});
TILEWRIGHT_API Result<std::string> rms_norm_backward_explain(Context& context, const RmsNormBackwardCall& call,
                                                             const Exec& exec = {});

}  // namespace tilewright
