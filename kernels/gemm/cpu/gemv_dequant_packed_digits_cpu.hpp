// SPDX-License-Identifier: MIT
// A block of A as digits for packed weights, and its product with lines of them: what gemv_dequant_packed_cpu does by
// vpdpbusd. A column is a lane, so four digits of A are broadcast, and what weights without a sign add is one number.
#pragma once

#include "gemm/cpu/gemv_dequant_digits_cpu.hpp"
#include "gemm/cpu/gemv_dequant_packed_cpu_blocking.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What lies where in a block of A: the planes of DigitBlock, then numbers of the four groups of 32 and of the block.
struct PackedDigitBlock {
  static constexpr int kAll = kDequantGroups;  // index of the block's
  static constexpr int kParts = kDequantGroups + 1;
  static constexpr int64 kStart =
      kDigits * DigitBlock::kDigit;                    // i32 pairs: starts of the upper digits' and the lowest's sums
  static constexpr int64 kSums = kStart + kParts * 8;  // f32: sums of A
  static constexpr int64 kUnit = kSums + kParts * 4;   // f32: the power of two
  static constexpr int64 kWhole = kUnit + 4;           // int: whether the digits of all rows are there
};
static_assert(PackedDigitBlock::kWhole + 4 <= kDequantPackedDigits);

// What makes a byte of a weight of kType.
template <DType kType>
inline constexpr int kByteOffset = dtype_bits(kType) == 4 ? kNibbleOffset<kType> : 128;
template <DType kType>
inline constexpr int kByteUnit = dtype_bits(kType) == 4 ? kNibbleUnit<kType> : 1;

// Writes a block of A, but for kWhole. False when digits do not hold it.
template <DType kType>
inline bool store_packed_digits(const float (&x)[kDequantBlock], char* to) {
  int whole[kDequantBlock];
  const float unit = whole_multiples(x, whole);
  if (unit == 0) return false;
  auto* const start = reinterpret_cast<int*>(to + PackedDigitBlock::kStart);
  auto* const sums = reinterpret_cast<float*>(to + PackedDigitBlock::kSums);
  int all_upper = 0, all_lowest = 0;
  constexpr int kOffset = kByteOffset<kType>;
  const auto put = [&](int part, int upper, int lowest) {
    start[2 * part] = -kOffset * upper;
    start[2 * part + 1] = -kOffset * lowest;
    sums[part] = static_cast<float>(256 * upper + lowest) * kByteUnit<kType>;
  };
  for (int group = 0; group < kDequantGroups; ++group) {
    int upper = 0, all = 0;
    for (int i = 32 * group; i < 32 * group + 32; ++i) {
      upper += (whole[i] + 128) >> 8;
      all += whole[i];
    }
    put(group, upper, all - 256 * upper);
    all_upper += upper, all_lowest += all - 256 * upper;
  }
  put(PackedDigitBlock::kAll, all_upper, all_lowest);
  store_digit_planes<kType>(whole, to);
  const float factor = unit / kByteUnit<kType>;
  __builtin_memcpy(to + PackedDigitBlock::kUnit, &factor, 4);
  return true;
}

// Four digits of each lane's column: those of plane `plane`, quad `quad`.
TILEWRIGHT_INLINE I32x16 four_digits(const char* block, int64 plane, int64 quad) {
  return I32x16::splat(read_as<int>(block + plane * DigitBlock::kLine + 4 * quad));
}

// Sums of a row: of each digit, in kChains chains that wait for none of the others.
template <int kChains>
struct DigitSums {
  I32x16 chain[kDigits][kChains];

  // `part`: a group, or kAll.
  TILEWRIGHT_INLINE void start(const char* block, int part) {
    const char* const at = block + PackedDigitBlock::kStart + 8 * part;
    unroll<kDigits * kChains>(
        [&](auto i) __attribute__((always_inline)) { chain[i / kChains][i % kChains] = I32x16::splat(0); });
    chain[1][0] = I32x16::splat(read_as<int>(at));
    chain[2][0] = I32x16::splat(read_as<int>(at + 4));
  }

  // Planes kFirst, kFirst + kStep ... of the digits, the highest first, times bytes of weights.
  template <int kFirst, int kStep>
  TILEWRIGHT_INLINE void add(const char* block, int64 quad, I32x16 bytes) {
    unroll<kDigits>([&](auto digit) __attribute__((always_inline)) {
      I32x16& sum = chain[digit][kFirst % kChains];
      sum = dot_u8_i8(sum, bytes, four_digits(block, kFirst + kStep * digit.value, quad));
    });
  }

  // kShort: the whole sum fits i32. Otherwise the lowest digit's comes apart.
  template <bool kShort>
  TILEWRIGHT_INLINE F32x16 total() const {
    I32x16 sum[kDigits];
    unroll<kDigits>([&](auto digit) __attribute__((always_inline)) {
      sum[digit] = chain[digit][0];
      if constexpr (kChains == 2) sum[digit] = sum[digit] + chain[digit][1];
    });
    const I32x16 upper = shift_left<8>(sum[0]) + sum[1];
    if constexpr (kShort) return to_float(shift_left<8>(upper) + sum[2]);
    return fma(to_float(upper), F32x16::splat(256), to_float(sum[2]));
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
