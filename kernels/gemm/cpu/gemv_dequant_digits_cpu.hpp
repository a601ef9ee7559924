// SPDX-License-Identifier: MIT
// A block of A as digits, and its product with a block of weights: what gemv_dequant_cpu does by vpdpbusd.
//
// A value of A is the sum of three digits times powers of 256, all times one power of two for the block. A lane sums
// products of digits and bytes in i32, without rounding, and the sums of the three come together there. Weights are bytes
// without a sign; what that adds is known from A alone, and starts or ends the sum. A block that no such digits hold
// exactly (far apart, infinite, NaN) keeps its floats.
#pragma once

#include "gemm/cpu/gemv_dequant_cpu_blocking.hpp"
#include "tile/cpu/dequant.hpp"
#include "tile/cpu/digits.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What lies where in a block of A.
struct DigitBlock {
  static constexpr int64 kLine = 64, kDigit = 2 * kLine;  // a digit of 128 values; the highest digit is first
  static constexpr int64 kStart = kDigits * kDigit;       // i32 lanes that start or end a sum, 4 lines
  static constexpr int64 kSums = kStart + 4 * kLine;      // sums of A, f32 lanes (4-bit weights)
  static constexpr int64 kUnit = kSums + kLine;           // f32: the power of two
  static constexpr int64 kWhole = kUnit + 4;              // int: whether the digits of all rows of the group are there
  static constexpr int64 kBytes = kUnit + kLine;
};
static_assert(DigitBlock::kBytes == kDigitBlockBytes);

TILEWRIGHT_INLINE bool has_digits(const char* block) { return read_as<int>(block + DigitBlock::kWhole) != 0; }

// The digits of a block, each in a plane of its own, the highest one first: in K's order for weights of 8 bits, even and odd
// values apart for those of 4. `whole` is used up.
template <DType kType>
inline void store_digit_planes(int (&whole)[kDequantBlock], char* to) {
  for (int digit = 0; digit < kDigits; ++digit) {
    signed char digits[kDequantBlock];
    take_digit(whole, digits);
    char* const line = to + (kDigits - 1 - digit) * DigitBlock::kDigit;
    if constexpr (dtype_bits(kType) == 8) {
      __builtin_memcpy(line, digits, sizeof(digits));
      continue;
    }
    for (int i = 0; i < kDequantBlock / 2; ++i) {
      line[i] = static_cast<char>(digits[2 * i]);
      line[DigitBlock::kLine + i] = static_cast<char>(digits[2 * i + 1]);
    }
  }
}

// Writes a block of A for weights of kType, but for kWhole. `together`: one scale serves the whole block. False when digits
// do not hold it.
template <DType kType>
inline bool store_digits(const float (&x)[kDequantBlock], bool together, char* to) {
  int whole[kDequantBlock];
  const float unit = whole_multiples(x, whole);
  if (unit == 0) return false;
  auto* const start = reinterpret_cast<int*>(to + DigitBlock::kStart);
  auto* const sums = reinterpret_cast<float*>(to + DigitBlock::kSums);
  if constexpr (dtype_bits(kType) == 4) {
    for (int lane = 0; lane < 16; ++lane) {
      int sum = 0;
      for (int i = 0; i < 8; ++i) sum += whole[8 * lane + i];
      start[lane] = -kNibbleOffset<kType> * sum;
      sums[lane] = static_cast<float>(sum) * kNibbleUnit<kType>;
    }
  } else {
    // Sums of the two lower digits, and of the highest, of each lane of both lines.
    int low[32], high[32];
    for (int lane = 0; lane < 32; ++lane) {
      int all = 0, upper = 0;
      for (int i = 4 * lane; i < 4 * lane + 4; ++i) {
        all += whole[i];
        upper += (whole[i] + 0x8080) >> 16;  // the lower digits are at least -0x8080
      }
      high[lane] = upper;
      low[lane] = all - 65536 * upper;
    }
    for (int lane = 0; lane < 16; ++lane) {
      start[lane] = -128 * (high[lane] + (together ? high[16 + lane] : 0));
      start[16 + lane] = -128 * (low[lane] + (together ? low[16 + lane] : 0));
      start[32 + lane] = -128 * high[16 + lane];
      start[48 + lane] = -128 * low[16 + lane];
    }
  }
  store_digit_planes<kType>(whole, to);
  const float factor = unit / (dtype_bits(kType) == 4 ? kNibbleUnit<kType> : 1);
  __builtin_memcpy(to + DigitBlock::kUnit, &factor, 4);
  return true;
}

TILEWRIGHT_INLINE F32x16 digit_unit(const char* block) {
  return F32x16::splat(read_as<float>(block + DigitBlock::kUnit));
}

// Lanes of the sum of A times 128 weights of 4 bits, in units of the block: even and odd ones as bytes.
template <DType kType>
TILEWRIGHT_INLINE F32x16 multiply_digits(const char* block, I32x16 even, I32x16 odd) {
  I32x16 sum = I32x16::splat(0);
  unroll<kDigits>([&](auto digit) __attribute__((always_inline)) {
    if constexpr (digit.value != 0) sum = shift_left<8>(sum);
    const char* const from = block + digit * DigitBlock::kDigit;
    sum = dot_u8_i8(sum, even, I32x16::load(from));
    sum = dot_u8_i8(sum, odd, I32x16::load(from + DigitBlock::kLine));
  });
  if constexpr (kNibbleOffset<kType> != 0) sum = sum + I32x16::load(block + DigitBlock::kStart);
  return to_float(sum);
}

// The same of kLines lines of 64 weights of 8 bits, from line kFirst on. The highest digit's sum would leave i32 with the
// lowest one's, so that comes apart.
template <int kFirst, int kLines>
TILEWRIGHT_INLINE F32x16 multiply_digits(const char* block, const I32x16 (&lines)[2]) {
  const char* const start = block + DigitBlock::kStart + 2 * kFirst * DigitBlock::kLine;
  I32x16 high = I32x16::load(start), low = I32x16::load(start + DigitBlock::kLine);
  const auto add = [&](auto digit, I32x16& sum) __attribute__((always_inline)) {
    unroll<kLines>([&](auto i) __attribute__((always_inline)) {
      constexpr int kAt = kFirst + i.value;
      sum = dot_u8_i8(sum, lines[kAt], I32x16::load(block + digit * DigitBlock::kDigit + kAt * DigitBlock::kLine));
    });
  };
  add(Index<0>{}, high);
  high = shift_left<8>(high);
  add(Index<1>{}, high);
  add(Index<2>{}, low);
  return fma(to_float(high), F32x16::splat(256), to_float(low));
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
