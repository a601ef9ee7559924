// SPDX-License-Identifier: MIT
// What gemm_dequant_cpu is compiled for, and which products it may bring into which form: constexpr, so that host and kernel
// agree. Freestanding.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/gemm_scale_args.hpp"

namespace tilewright {

struct GemmDequantCpuConfig {
  static constexpr const char* kTypeName = "GemmDequantCpuConfig";
  DType dtype;  // what A and B are multiplied as: f32, bf16 or i8
  CpuMma mma;
  int tile_m;  // rows of the register tile
  int tile_n;  // columns of the register tile, a multiple of 16
  bool
      by_group;  // sums of groups of K stand apart and take their scales then; else the values do while they are packed

  bool operator==(const GemmDequantCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("mma", self.mma);
    visit("tile_m", self.tile_m);
    visit("tile_n", self.tile_n);
    visit("by_group", self.by_group);
  }
  constexpr GemmCpuConfig product() const { return {dtype, mma, tile_m, tile_n, 0}; }
};

// Null when legal, else the rule that is broken.
constexpr const char* gemm_dequant_cpu_refusal(const GemmDequantCpuConfig& c) {
  if (const char* refusal = gemm_cpu_refusal(c.product())) return refusal;
  if (c.dtype == DType::kF16) return "dtype must be f32, bf16 or i8";
  if (!is_amx(c.mma) && c.tile_m > 16) return "tile_m must be at most 16: rows of A are packed 16 at a time";
  if (c.dtype == DType::kF32 && c.by_group) return "f32 takes scales while it is packed: by_group must be 0";
  if (c.dtype == DType::kI8 && !c.by_group) return "i8 has no room for scales: by_group must be 1";
  return nullptr;
}

inline constexpr int kMostScaleDepth = 128;  // of kScaleDepths
inline constexpr int kLeastGroup = 32;       // K of groups that are summed apart, at least

// Bits that a type's significand has, so that a product of two values has at most as many as both together.
constexpr int significant_bits(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 24;
    case DType::kF16: return 11;
    case DType::kBf16:
    case DType::kI8: return 8;
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kU4: return 4;
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
    case DType::kI4: return 3;
    case DType::kF4E2M1: return 2;
    default: return 1;  // e8m0
  }
}

// One operand of a product: its type, and the groups' scales and zero points (k = 0: none).
struct DequantOperand {
  DType dtype;
  const GemmBlockScale& scale;
  const GemmBlockScale* zero;

  constexpr bool scaled() const { return scale.k > 0; }
  constexpr bool has_zeros() const { return zero != nullptr && zero->k > 0; }
  // Of a value less its zero point. Integers of up to 8 bits are at most 255 apart.
  constexpr int bits() const {
    if (!has_zeros()) return significant_bits(dtype);
    const bool whole = zero->dtype == DType::kI8 || zero->dtype == DType::kI4 || zero->dtype == DType::kU4;
    return whole ? 8 : 24;
  }
  // Whether bf16 holds a value times its scale.
  constexpr bool folds_into_bf16() const {
    const int scale_bits = significant_bits(scale.dtype);
    return bits() + (scale_bits == 1 ? 0 : scale_bits) <= significant_bits(DType::kBf16);
  }
};
constexpr DequantOperand dequant_a(const GemmScaledArgs& s) { return {s.gemm.a_dtype, s.scale.a, nullptr}; }
constexpr DequantOperand dequant_b(const GemmScaledArgs& s) { return {s.gemm.b_dtype, s.scale.b, &s.zero_b}; }

// Whether the sums of this operand's groups take its scales, in a kernel that multiplies `dtype`.
constexpr bool scale_stands_apart(DType dtype, const DequantOperand& o) {
  if (dtype == DType::kF32 || !o.scaled()) return false;
  return dtype == DType::kI8 || !o.folds_into_bf16();
}

// K of the groups that are summed apart, the shorter of both operands'; 0: none are.
constexpr int64 dequant_group(DType dtype, const GemmScaledArgs& s) {
  int64 group = 0;
  const DequantOperand operands[] = {dequant_a(s), dequant_b(s)};
  for (const DequantOperand& o : operands) {
    if (scale_stands_apart(dtype, o) && (group == 0 || o.scale.k < group)) group = o.scale.k;
  }
  return group;
}

// Null when the kernel computes the product, else why it does not.
constexpr const char* dequant_product_refusal(const GemmDequantCpuConfig& c, const GemmScaledArgs& s) {
  if (c.dtype == DType::kF32) return nullptr;
  const DequantOperand a = dequant_a(s), b = dequant_b(s);
  if (c.dtype == DType::kI8) {
    if (a.dtype != DType::kI8 || b.dtype != DType::kI8) return "kernel multiplies i8";
  } else if (a.bits() > 8 || b.bits() > 8) {
    return "bf16 does not hold the values of A or B";
  }
  const int64 group = dequant_group(c.dtype, s), least = is_amx(c.mma) ? 16 * unit_k(c.mma) : kLeastGroup;
  if (group > 0 && group < least) return "groups are shorter than what pays a sum of its own";
  if (c.by_group != (group > 0)) {
    return c.by_group ? "no groups need sums of their own" : "the groups' sums must stand apart";
  }
  return nullptr;
}

constexpr GemmCpuSizes gemm_dequant_cpu_sizes(const GemmDequantCpuConfig& c, const GemmScaledArgs& s) {
  GemmCpuSizes sizes = gemm_cpu_sizes(s.gemm);
  sizes.b_packed = false;           // packed weights are widened too
  sizes.grain_k = kMostScaleDepth;  // every block begins with a group
  sizes.group_k = c.by_group ? dequant_group(c.dtype, s) : 0;
  return sizes;
}

constexpr int64 gemm_dequant_cpu_workspace_bytes(const GemmDequantCpuConfig& c, const GemmScaledArgs& s, int64 units) {
  return gemm_cpu_workspace_bytes(c.product(), gemm_dequant_cpu_sizes(c, s), units);
}

}  // namespace tilewright
