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

// Both halves of a row, of what make(piece, first, second) makes.
template <DType kOut, class Make>
TILEWRIGHT_INLINE void encode_halves(const RowArgs& args, char* row, Make&& make) {
  constexpr int kCount = 32 / dtype_bits(kOut), kBits = dtype_bits(kOut);  // vectors of a line
  char* const halves[] = {row, row + args.n * kBits / 8};
  const bool stream = args.stream && begins_line(halves[0]) && begins_line(halves[1]);
  long long n = 0;
  for (; n + kCount * kVec <= args.n; n += kCount * kVec) {
    F32x16 v[2][kCount];
    unroll<kCount>([&](auto i)
                       __attribute__((always_inline)) { make(RowPiece<true>{n + i * kVec, kVec}, v[0][i], v[1][i]); });
    for (int half = 0; half < 2; ++half) encode_many<kOut>(halves[half] + n * kBits / 8, v[half], stream);
  }
  const long long begin = n;
  for_pieces(args.n - begin, [&](auto rest) __attribute__((always_inline)) {
    const decltype(rest) piece{begin + rest.n, rest.count};
    F32x16 first, second;
    make(piece, first, second);
    store_piece<kOut>(halves[0], kOut, piece, first);
    store_piece<kOut>(halves[1], kOut, piece, second);
  });
}

// What most models ask for, as is_plain_gate().
template <RowCpuConfig kConfig, class Slope>
TILEWRIGHT_INLINE void plain_gate_slopes(const RowArgs& args, unsigned unit, unsigned units, Slope&& slope) {
  constexpr DType kX = kConfig.x, kGrad = kConfig.residual;
  const long long next = fetch_distance(args.residual), half = args.n * kBytes<kX>;
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const char *const x = row_start(args.x, at), *const dy = row_start(args.residual, at);
    const GatedNext<kX> gates(args, at);
    encode_halves<kConfig.out>(args, row_start(args.out, at),
                               [&](auto piece, F32x16& of_gate, F32x16& of_up) __attribute__((always_inline)) {
                                 gates.fetch_next(piece);
                                 fetch(dy + piece.n * kBytes<kGrad> + next);
                                 const char* const gate = x + piece.n * kBytes<kX>;
                                 const F32x16 grad = load_typed<kGrad>(dy + piece.n * kBytes<kGrad>, piece);
                                 const ActivationSlope v = slope(load_typed<kX>(gate, piece));
                                 of_gate = grad * load_typed<kX>(gate + half, piece) * v.slope;
                                 of_up = grad * v.value;
                               });
  });
}

template <RowCpuConfig kConfig>
void act_and_mul_backward_cpu(const RowArgs& arguments, unsigned unit, unsigned units) {
  constexpr bool kTyped = kConfig.x != DType::kNone;
  const RowArgs args = arguments;  // which no store changes
  if constexpr (kTyped) {
    if (is_plain_gate(args) && args.activation == Activation::kSilu) {
      return plain_gate_slopes<kConfig>(args, unit, units, [](F32x16 x) { return silu_slope(x, 1); });
    }
    if (is_plain_gate(args) && args.activation == Activation::kGeluTanh) {
      return plain_gate_slopes<kConfig>(args, unit, units, [](F32x16 x) { return gelu_tanh_slope(x); });
    }
  }
  const long long next = fetch_distance(args.residual);
  const F32x16 limit = F32x16::splat(args.limit), zero = F32x16::splat(0);
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const char *const x = row_start(args.x, at), *const dy = row_start(args.residual, at);
    char* const dx = row_start(args.out, at);
    const DType out = args.out.dtype;
    const GatedNext<kConfig.x> gates(args, at);
    const auto make = [&](auto piece, F32x16& of_gate, F32x16& of_up) __attribute__((always_inline)) {
      F32x16 gate, up = of_up = zero;
      load_gated<kConfig.x>(args, x, piece, gate, up);
      gates.fetch_next(piece);
      if constexpr (kTyped) fetch(dy + piece.n * kBytes<kConfig.residual> + next);
      const F32x16 grad = load_piece<kConfig.residual>(dy, args.residual.dtype, piece);

      ActivationSlope v = gate_slope(args, at_most(gate, limit));
      if (args.squared) v = {v.value * v.value, (v.value + v.value) * v.slope};
      // What was cut has no slope.
      of_gate = grad * select_less(limit, gate, zero, v.slope);
      if (args.gate == GateMode::kNone) return;
      of_gate = of_gate * (at_most(at_least(up, zero - limit), limit) + F32x16::splat(args.up_offset));
      of_up = select_less(limit, absolute(up), zero, grad * v.value);
    };

    if constexpr (kTyped) {
      if (args.gate == GateMode::kSeparated) return encode_halves<kConfig.out>(args, dx, make);
      if (args.gate == GateMode::kNone) {
        return encode_row<kConfig.out>(args, dx, [&](auto piece) __attribute__((always_inline)) {
          F32x16 of_gate, none;
          make(piece, of_gate, none);
          return of_gate;
        });
      }
    }
    for_pieces(args.n, [&](auto piece) __attribute__((always_inline)) {
      F32x16 of_gate, of_up;
      make(piece, of_gate, of_up);
      if (args.gate == GateMode::kInterleaved) return store_pairs<kConfig.out>(dx, out, piece, of_gate, of_up);
      store_piece<kConfig.out>(dx, out, piece, of_gate);
      if (args.gate == GateMode::kSeparated)
        store_piece<kConfig.out>(dx + args.n * dtype_bits(out) / 8, out, piece, of_up);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
