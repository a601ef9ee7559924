// SPDX-License-Identifier: MIT
// layer_norm: y = (r - mean(r)) / sqrt(variance(r) + eps) * weight + bias of each row r of N elements, r = x or x + residual.
//
// Shapes, strides, dtypes, sizes, aliasing and quantised outputs are rms_norm's (tilewright/rms_norm.hpp). Accumulation: f32, the
// variance about the mean. docs/layer_norm.md has the contract.
#pragma once

#include <string>

#include "tile/common/quantise.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

// As RmsNormCall.
struct LayerNormCall {
  TensorView x, out;
  TensorView weight, bias;  // optional
  TensorView residual,
      residual_out;   // optional; x + residual, rounded to the residual's dtype, and where it is written
  TensorView smooth;  // optional: a factor for each column, behind weight and bias
  float eps = 1e-5f;
  bool unit_offset = false;          // the weight is 1 + weight
  bool round_before_weight = false;  // (r - mean) / sqrt(..) is rounded to x's dtype before the weight
  Quantisation quant = Quantisation::kNone;
  TensorView scale;
  TensorView tensor_scale;  // f32, one element, read: what scales of e4m3 are multiples of; absent: 1
  int64_t group = 0;        // 16, 32, 64 or 128; 0 = 128, with scales of e8m0 32, of e4m3 16
  ScaleRounding rounding = ScaleRounding::kDown;
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status layer_norm(Context& context, const LayerNormCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status layer_norm_prepare(Context& context, const LayerNormCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> layer_norm_query(Context& context, const LayerNormCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> layer_norm_explain(Context& context, const LayerNormCall& call,
                                                      const Exec& exec = {});

// The gradients of x, of the weight and of the bias: shapes and types as above; docs/norm_backward.md has the contract. x is what was
// normalised, where there was a residual the sum, and dx is the gradient of both. dx may be x, dy or dresidual.
struct LayerNormBackwardCall {
  TensorView x{}, dy{}, dx{};
  TensorView weight{};            // as it was given
  TensorView dresidual{};         // optional, of dx's dtype: the gradient of residual_out, which is added to dx
  TensorView dweight{}, dbias{};  // optional, written: [N]
  float eps = 1e-5f;
  bool unit_offset = false;
  std::string recipe{};
};

// As layer_norm and its like.
TILEWRIGHT_API Status layer_norm_backward(Context& context, const LayerNormBackwardCall& call, const Exec& exec = {});
TILEWRIGHT_API Status layer_norm_backward_prepare(Context& context, const LayerNormBackwardCall& call,
                                                  const Exec& exec = {});
TILEWRIGHT_API Result<QueryResult> layer_norm_backward_query(Context& context, const LayerNormBackwardCall& call,
                                                             const Exec& exec = {});
TILEWRIGHT_API Result<std::string> layer_norm_backward_explain(Context& context, const LayerNormBackwardCall& call,
                                                               const Exec& exec = {});

}  // namespace tilewright
