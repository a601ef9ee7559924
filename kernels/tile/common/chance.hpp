// SPDX-License-Identifier: MIT
// Rounding by chance (stochastic rounding): a value becomes one of its two neighbours among a type's values, the nearer one the more
// often, by 16 random bits of its own. The same on every device; docs/quantize.md. Freestanding.
#pragma once

#include "tile/common/philox.hpp"
#include "tile/common/quantise.hpp"

namespace tilewright {

// The bits of eight neighbours, two in a word: of the piece'th piece of a row of so many.
inline constexpr int kChancePiece = 8;
constexpr long long chance_pieces(long long n) { return (n + kChancePiece - 1) / kChancePiece; }
constexpr PhiloxWords chances_of(const int* random_state, int words, long long piece) {
  return philox(number_of_words(random_state, words, 0), number_of_words(random_state, words, 1),
                static_cast<unsigned long long>(piece));
}
constexpr unsigned chance_of(const PhiloxWords& words, int i) { return words.word[i / 2] >> (16 * (i % 2)) & 0xFFFFu; }

// The values of a type: f32's with fewer bits from the smallest normal one on, below it multiples of one step.
struct ChanceGrid {
  float most, least;  // magnitudes of the largest and the smallest value
  unsigned normal;    // the bits of the smallest normal value
  int bits;           // that f32 has more
  float step, parts;  // 1 / step, 65536 times
};
constexpr ChanceGrid chance_grid(DType dtype) {
  if (dtype == DType::kI8) return {127, 128, 0x7F800000u, 16, 1, 0x1p16f};  // all of them multiples
  const int mantissa = mantissa_bits(dtype);
  const int bias = dtype == DType::kF8E4M3       ? 7
                   : dtype == DType::kF8E4M3Fnuz ? 8
                   : dtype == DType::kF8E5M2     ? 15
                   : dtype == DType::kF8E5M2Fnuz ? 16
                                                 : 1;
  const auto power = [](int of) { return __builtin_bit_cast(float, static_cast<unsigned>(127 + of) << 23); };
  const float limit = quantised_limit(dtype);
  return {limit,
          limit,
          __builtin_bit_cast(unsigned, power(1 - bias)),
          23 - mantissa,
          power(1 - bias - mantissa),
          power(16 + bias - 1 + mantissa)};
}

// `chance` < 2^16. What is beyond the last value becomes that; NaN stays.
constexpr float round_by_chance(float x, const ChanceGrid& grid, unsigned chance) {
  const unsigned all = __builtin_bit_cast(unsigned, x), sign = all & 0x80000000u;
  const float given = __builtin_bit_cast(float, all & 0x7FFFFFFFu), most = sign == 0 ? grid.most : grid.least;
  const float magnitude = given < most ? given : most;
  const unsigned kept = __builtin_bit_cast(unsigned, magnitude);
  const bool multiple = kept < grid.normal;
  // A carry out of the bits that go is a step up.
  const unsigned normal = (kept + (chance << (grid.bits - 16))) >> grid.bits << grid.bits;
  const auto parts = static_cast<unsigned>(static_cast<int>((multiple ? magnitude : 0.0f) * grid.parts));
  const float steps = static_cast<float>(static_cast<int>((parts + chance) >> 16)) * grid.step;
  const unsigned rounded = multiple ? __builtin_bit_cast(unsigned, steps) : normal;
  return given == given ? __builtin_bit_cast(float, sign | rounded) : x;
}

}  // namespace tilewright
