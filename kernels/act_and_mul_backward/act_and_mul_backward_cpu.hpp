// SPDX-License-Identifier: MIT
// act_and_mul_backward_cpu: gradients of gates and of what they multiply, along rows, read once. Typed by its config, or at run time.
#pragma once

#include "act_and_mul/act_and_mul_cpu.hpp"
#include "act_and_mul_backward/activation_slope_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE ActivationSlope gate_slope(const RowArgs& args, F32x16 x) {
  if (args.activation == Activation::kSilu) return silu_slope(x, args.alpha);
  float values[kVec], slopes[kVec];
  x.store(values);
  activation_slope_any(args.activation, values, slopes);
  return {F32x16::load(values), F32x16::load(slopes)};
}

template <RowCpuConfig kConfig>
void act_and_mul_backward_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  const F32x16 limit = F32x16::splat(args.limit), zero = F32x16::splat(0);
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const char *const x = row_start(args.x, at), *const dy = row_start(args.residual, at);
    char* const dx = row_start(args.out, at);
    const DType out = args.out.dtype;
    for_pieces(args.n, [&](auto piece) __attribute__((always_inline)) {
      F32x16 gate, up = zero;
      load_gated<kConfig.x>(args, x, piece, gate, up);
      F32x16 grad = load_piece<kConfig.residual>(dy, args.residual.dtype, piece);

      ActivationSlope v = gate_slope(args, at_most(gate, limit));
      if (args.squared) v = {v.value * v.value, (v.value + v.value) * v.slope};
      // What was cut has no slope.
      v.slope = select_less(limit, gate, zero, v.slope);
      if (args.gate == GateMode::kNone) return store_piece<kConfig.out>(dx, out, piece, grad * v.slope);
      const F32x16 factor = at_most(at_least(up, zero - limit), limit) + F32x16::splat(args.up_offset);
      const F32x16 of_up = select_less(limit, absolute(up), zero, grad * v.value), of_gate = grad * factor * v.slope;
      if (args.gate == GateMode::kInterleaved) return store_pairs<kConfig.out>(dx, out, piece, of_gate, of_up);
      store_piece<kConfig.out>(dx, out, piece, of_gate);
      store_piece<kConfig.out>(dx + args.n * dtype_bits(out) / 8, out, piece, of_up);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
