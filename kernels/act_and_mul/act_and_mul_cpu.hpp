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
  if (args.activation == Activation::kSilu) return silu(x, args.alpha);
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

// What a row of gates has next.
template <DType kType>
struct GatedNext {
  const char* x;  // a row that comes later
  long long n;
  GateMode gate;

  TILEWRIGHT_INLINE GatedNext(const RowArgs& args, const RowIndex& at)
      : x(row_start(args.x, at) + fetch_distance(args.x)), n(args.n), gate(args.gate) {}
  template <bool kWhole>
  TILEWRIGHT_INLINE void fetch_next(RowPiece<kWhole> at) const {
    if constexpr (kType != DType::kNone) {
      fetch(x + at.n * kBytes<kType> * (gate == GateMode::kInterleaved ? 2 : 1));
      if (gate == GateMode::kSeparated) fetch(x + (n + at.n) * kBytes<kType>);
    }
  }
};

// What most models ask for: an activation of the first half times the second.
inline bool is_plain_gate(const RowArgs& args) {
  return args.gate == GateMode::kSeparated && args.alpha == 1 && args.up_offset == 0 &&
         args.limit == __builtin_inff() && !args.squared;
}
template <RowCpuConfig kConfig, class Activate>
TILEWRIGHT_INLINE void plain_gates(const RowArgs& args, unsigned unit, unsigned units, Activate&& activate) {
  constexpr DType kX = kConfig.x;
  const long long half = args.n * kBytes<kX>;
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const char* const x = row_start(args.x, at);
    store_row<kConfig>(args, at, GatedNext<kX>(args, at), [&](auto piece) __attribute__((always_inline)) {
      const char* const gate = x + piece.n * kBytes<kX>;
      return within_row(activate(load_typed<kX>(gate, piece)) * load_typed<kX>(gate + half, piece), piece);
    });
  });
}

template <RowCpuConfig kConfig>
void act_and_mul_cpu(const RowArgs& arguments, unsigned unit, unsigned units) {
  const RowArgs args = arguments;  // which no store changes
  if constexpr (kConfig.x != DType::kNone) {
    if (is_plain_gate(args) && args.activation == Activation::kSilu) {
      return plain_gates<kConfig>(args, unit, units, [](F32x16 x) { return silu(x); });
    }
    if (is_plain_gate(args) && args.activation == Activation::kGeluTanh) {
      return plain_gates<kConfig>(args, unit, units, [](F32x16 x) { return gelu_tanh(x); });
    }
  }
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const char* const x = row_start(args.x, at);
    store_row<kConfig>(args, at, GatedNext<kConfig.x>(args, at), [&](auto piece) __attribute__((always_inline)) {
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
