// SPDX-License-Identifier: MIT
// A word of narrow weights, eight of 4 bits or four of 8, as pairs of 16-bit floats: the integer half of the conversion,
// the same on host and device. What comes out is a float, off by a factor or an offset that one packed instruction takes
// away. A pair has two values that lie where masks find them at once: pair j of 4-bit types has j and j + 4, of integers
// of 8 bits j and j + 2; 8-bit floats are converted in their order. Freestanding.
#pragma once

#include "tile/common/dtype.hpp"

namespace tilewright {

constexpr bool is_nibble_integer(DType weight) { return weight == DType::kI4 || weight == DType::kU4; }
// Values of a word, and which of them is half `half` of pair `pair`.
constexpr int word_values(DType weight) { return 32 / dtype_bits(weight); }
constexpr int pair_value(DType weight, int pair, int half) {
  if (is_ocp_f8(weight)) return 2 * pair + half;
  return pair + half * word_values(weight) / 2;
}

// e2m1 as bf16, 2^-126 of its value: sign, exponent and mantissa moved to bits 15 and 8 to 6. Subnormals are bf16's.
inline constexpr int kE2M1Bf16Shift = 126;
template <int kPair>
constexpr unsigned e2m1_as_bf16(unsigned word) {
  constexpr unsigned kWanted = 0x81C081C0u;
  // One product makes both copies, of which one has the sign in its place and the other the rest.
  if constexpr (kPair == 1) return (word & 0x00F000F0u) * 0x0104u & kWanted;
  if constexpr (kPair == 0) return (word & 0x000F000Fu) * 0x1040u & kWanted;
  // Pairs 2 and 3 share a shift.
  if constexpr (kPair == 2) return (word >> 6 & 0x003C003Cu) * 0x0410u & kWanted;
  return (word & 0x80008000u) | (word >> 6 & 0x01C001C0u);
}
// Packed e2m1: the eight values of a word with their bits where one mask finds a pair's, of the first three pairs behind a product of
// a power of two. What is left of the sixteen bits are the fourth pair's: its sign at 13, exponent at 11 and 10, mantissa at 14.
constexpr unsigned e2m1_fragment_bits(int value, unsigned code) {
  const unsigned sign = code >> 3 & 1, rest = code & 7;
  const int pair = value % 4;
  const unsigned bits =
      pair == 3 ? sign << 13 | (rest >> 1) << 10 | (rest & 1) << 14 : sign << (15 - 3 * pair) | rest << (6 - 3 * pair);
  return bits << (value / 4 * 16);
}
constexpr unsigned e2m1_fragment_code(int value, unsigned word) {
  const unsigned bits = word >> (value / 4 * 16);
  const int pair = value % 4;
  if (pair == 3) return (bits >> 13 & 1) << 3 | (bits >> 10 & 3) << 1 | (bits >> 14 & 1);
  return (bits >> (15 - 3 * pair) & 1) << 3 | (bits >> (6 - 3 * pair) & 7);
}
template <int kPair>
constexpr unsigned e2m1_fragment_as_bf16(unsigned word) {
  constexpr unsigned kWanted = 0x81C081C0u;
  if constexpr (kPair < 3) return word * (1u << 3 * kPair) & kWanted;
  return (word >> 10 & 0x001B001Bu) * 0x1084u & kWanted;
}
// The same as f16, 2^-14 of its value: bits 15 and 11 to 9.
inline constexpr int kE2M1F16Shift = 14;
template <int kPair>
constexpr unsigned e2m1_as_f16(unsigned word) {
  const unsigned sign = word << (12 - 4 * kPair) & 0x80008000u;
  if constexpr (kPair == 3) return sign | (word >> 3 & 0x0E000E00u);
  return sign | (word << (kPair == 3 ? 0 : 9 - 4 * kPair) & 0x0E000E00u);
}

// Some bits of a word, and others flipped: one instruction, which compilers make two of.
template <unsigned kMask, unsigned kFlip>
constexpr unsigned mask_and_flip(unsigned word) {
#if defined(__CUDA_ARCH__)
  unsigned bits;
  asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(bits) : "r"(word), "n"(kMask), "n"(kFlip));
  return bits;
#else
  return (word & kMask) ^ kFlip;
#endif
}
// Four bits as the lowest of a bf16's or an f16's, which then count its smallest steps: pairs 0 and 2 as they are, 1 and 3 in
// steps sixteen times as large. bf16 counts on in steps of 2^-133 from its subnormals into its first exponent; f16 wants 1024 in
// front, since less bits of it are an exponent. i4 is 8 more. Only pairs 2 and 3 want a shift.
inline constexpr int kNibbleBf16Shift = 6;  // what a factor of bf16 cannot make good: 2^-133 * 2^127
template <DType kWeight, DType kTo, int kPair>
constexpr unsigned nibbles_as_steps(unsigned word) {
  constexpr unsigned kUp = kPair % 2 == 0 ? 0 : 4;
  constexpr unsigned kFront = kTo == DType::kBf16 ? 0 : 0x64006400u;
  constexpr unsigned kSign = (kWeight == DType::kI4 ? 0x00080008u : 0) << kUp;
  return mask_and_flip < 0x000F000Fu << kUp, kFront | kSign > (kPair < 2 ? word : word >> 8);
}
// i8 as f16: 1024 + 128 more.
template <int kPair>
constexpr unsigned i8_as_f16(unsigned word) {
  return mask_and_flip<0x00FF00FFu, 0x64806480u>(word >> (8 * kPair));
}
// i8 as bf16, whose mantissa has seven bits: those and 128, to which -128 or, of negative values, -256 is added.
template <int kPair>
constexpr unsigned i8_low_as_bf16(unsigned word) {
  return mask_and_flip<0x007F007Fu, 0x43004300u>(word >> (8 * kPair));
}
template <int kPair>
constexpr unsigned i8_high_as_bf16(unsigned word) {
  return mask_and_flip<0x00800080u, 0xC300C300u>(word >> (8 * kPair));
}

}  // namespace tilewright
