// SPDX-License-Identifier: MIT
// dequantize: codes and the scales that go with them as floats, quantize's way back: out = x * scale.
//
// Shapes: x, out [..., N]; scale by `quant` (docs/quantisation.md). Dtypes: x e4m3, e5m2 (OCP and FNUZ), i8, e2m1; out f32, f16,
// bf16; scale f32, of groups also e8m0, of e2m1 e4m3. Strides, sizes and aliasing as rms_norm's. docs/dequantize.md has the contract.
#pragma once

#include <string>

#include "tile/common/quantise.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct DequantizeCall {
  TensorView x, out;
  TensorView scale;
  Quantisation quant = Quantisation::kRow;  // kTensor, kRow, kGroup or kBlock
  int64_t group = 0;                        // 16, 32, 64 or 128; 0 = 128, with scales of e8m0 32, of e4m3 16
  TensorView tensor_scale;                  // f32, one element: what scales of e4m3 are multiples of; absent: 1
  std::string recipe;                       // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status dequantize(Context& context, const DequantizeCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status dequantize_prepare(Context& context, const DequantizeCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> dequantize_query(Context& context, const DequantizeCall& call,
                                                    const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> dequantize_explain(Context& context, const DequantizeCall& call,
                                                      const Exec& exec = {});

}  // namespace tilewright
