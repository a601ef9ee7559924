// SPDX-License-Identifier: MIT
// act_and_mul_cpu: activation(gate) * up along rows, read once. Typed by its config, or at run time.
#pragma once

#include "gemm/cpu/gemm_activation_cpu.hpp"
#include "tile/cpu/row_pairs.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A function, because a kernel activates in many places; through memory, because the calling convention has no such vectors
// everywhere.
inline __attribute__((noinline)) void activate_any(Activation activation, float* x) {
  with_activation(activation, 0, 0, [x](auto&& f) { f(F32x16::load(x)).store(x); });
}
TILEWRIGHT_INLINE F32x16 activate_gate(const RowArgs& args, F32x16 x) {
  if (args.activation == Activation::kSilu) return x * sigmoid(x * F32x16::splat(args.alpha));
  float values[kVec];
  x.store(values);
  activate_any(args.activation, values);
  return F32x16::load(values);
}

// Gates and what they multiply; `x` points to the row's first element.
template <DType kType, bool kWhole>
TILEWRIGHT_INLINE void load_gated(const RowArgs& args, const char* x, RowPiece<kWhole> at, F32x16& gate, F32x16& up) {
  const DType dtype = args.x.dtype;
  if (args.gate == GateMode::kInterleaved) return load_pairs<kType>(x, dtype, at, gate, up);
  gate = load_piece<kType>(x, dtype, at);
  if (args.gate == GateMode::kSeparated) up = load_piece<kType>(x + args.n * dtype_bits(dtype) / 8, dtype, at);
}

template <RowCpuConfig kConfig>
void act_and_mul_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const char* const x = row_start(args.x, at);
    store_row<kConfig>(args, at, [&](auto piece) __attribute__((always_inline)) {
      F32x16 gate, up = F32x16::splat(0);
      load_gated<kConfig.x>(args, x, piece, gate, up);

      F32x16 v = activate_gate(args, at_most(gate, F32x16::splat(args.limit)));
      if (args.squared) v = v * v;
      if (args.gate == GateMode::kNone) return within_row(v, piece);
      up = at_most(at_least(up, F32x16::splat(-args.limit)), F32x16::splat(args.limit));
      return within_row(v * (up + F32x16::splat(args.up_offset)), piece);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
