// SPDX-License-Identifier: MIT
// Configs of gemm_sm90_dequant as tests write them: a tile, then what differs from the plainest.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"

namespace tilewright::emulated::dequant {

constexpr GemmSm90DequantConfig tile(DType dtype, DType weight, int rows, int tokens, int warpgroups) {
  return {.dtype = dtype,
          .weight = weight,
          .scale = DType::kNone,
          .group = 0,
          .zero = DType::kNone,
          .epilogue = EpilogueKind::kPlain,
          .activation = Activation::kNone,
          .gate = GateMode::kNone,
          .d_dtype = dtype,
          .rows = rows,
          .tokens = tokens,
          .warpgroups = warpgroups,
          .stages = 3,
          .blocks = 1,
          .splits = 1,
          .cluster = 1,
          .packed = false,
          .scale_row = 0};
}
constexpr GemmSm90DequantConfig scaled(GemmSm90DequantConfig c, DType scale, int group, DType zero = DType::kNone) {
  c.scale = scale, c.group = group, c.zero = zero;
  return c;
}
constexpr GemmSm90DequantConfig linear(GemmSm90DequantConfig c, GateMode gate, Activation activation, DType d) {
  c.epilogue = EpilogueKind::kLinear, c.gate = gate, c.activation = activation, c.d_dtype = d;
  return c;
}
constexpr GemmSm90DequantConfig split(GemmSm90DequantConfig c, int splits) {
  c.splits = splits;
  return c;
}
constexpr GemmSm90DequantConfig meeting(GemmSm90DequantConfig c, int parts) {
  c.splits = c.cluster = parts;
  return c;
}
constexpr GemmSm90DequantConfig whole(GemmSm90DequantConfig c, int scale_row) {
  c.scale_row = scale_row;
  return c;
}
constexpr GemmSm90DequantConfig staged(GemmSm90DequantConfig c, int stages) {
  c.stages = stages;
  return c;
}
constexpr GemmSm90DequantConfig packed(GemmSm90DequantConfig c) {
  c.packed = true;
  return c;
}
inline constexpr DType kBf = DType::kBf16, kHalf = DType::kF16, kU4 = DType::kU4, kI4 = DType::kI4, kI8 = DType::kI8;
inline constexpr DType kE2 = DType::kF4E2M1, kE4 = DType::kF8E4M3, kE5 = DType::kF8E5M2, kE8 = DType::kE8M0;

}  // namespace tilewright::emulated::dequant
