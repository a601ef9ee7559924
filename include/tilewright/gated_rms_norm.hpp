// SPDX-License-Identifier: MIT
// gated_rms_norm: y = norm(x silu(z)) weight, or norm(x) weight silu(z), of each row of N elements, or of groups of it: Mamba-2's.
//
// Shapes: x, z, out [..., N]; weight [N]. Rows have their elements next to each other, outer dimensions any strides that leave at
// most three apart, groups one of them. Dtypes: f32, f16, bf16, each tensor its own; out also e4m3, e5m2 (OCP and FNUZ), i8, e2m1,
// with scales (docs/quantisation.md). Accumulation: f32.
// Sizes: N and the group's are exact, the number of rows bucketed. Size 0 is legal.
// Aliasing: out may be x or z, the same elements of the same dtype. docs/gated_rms_norm.md has the contract.
#pragma once

#include <string>

#include "tile/common/quantise.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct GatedRmsNormCall {
  TensorView x, z, out;
  TensorView weight{};  // optional
  float eps = 1e-5f;
  int64_t norm_group = 0;         // neighbours that have one mean square; 0 = a row
  bool norm_before_gate = false;  // the gate comes behind norm and weight
  // Quantised output: as rms_norm's. Scales of rows want one group a row, scales of groups whole ones.
  Quantisation quant = Quantisation::kNone;
  TensorView scale{};
  TensorView tensor_scale;  // f32, one element, read: what scales of e4m3 are multiples of; absent: 1
  int64_t group = 0;        // 16, 32, 64 or 128; 0 = 128, with scales of e8m0 32, of e4m3 16
  ScaleRounding rounding = ScaleRounding::kDown;
  std::string recipe{};  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status gated_rms_norm(Context& context, const GatedRmsNormCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status gated_rms_norm_prepare(Context& context, const GatedRmsNormCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> gated_rms_norm_query(Context& context, const GatedRmsNormCall& call,
                                                        const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> gated_rms_norm_explain(Context& context, const GatedRmsNormCall& call,
                                                          const Exec& exec = {});

}  // namespace tilewright
