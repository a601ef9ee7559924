// SPDX-License-Identifier: MIT
// What a draw is, on every device: bins of tokens, their masses as whole numbers, the random numbers. Freestanding.
#pragma once

#include "sample/sample_args.hpp"
#include "tile/common/logarithms.hpp"
#include "tile/common/philox.hpp"

namespace tilewright {

// ---- Bins --------------------------------------------------------------------------------------------------------------

// A token's place is its logit over the temperature in octaves, rounded to eighths: what fma(logit, factor, kPlaceOrigin) rounds to by itself.
// Tokens of one place are a bin's; bins are counted from the most likely token's on, and the last one has all that are less.
inline constexpr float kPlaceOrigin = 0x1.8p20f, kBinWidth = 0.125f, kBinsWidth = (kSelectBins - 1) * kBinWidth;
constexpr float place_factor(const SampleRule& rule) { return rule.inverse * kLog2E; }
constexpr unsigned place_bits(float place) { return __builtin_bit_cast(unsigned, place); }
// Whether places tell tokens apart: of a row's largest logit, and of the largest of a part of it, with all that matters of the row.
inline constexpr float kPlacesReach = 0x1p19f - 64;
constexpr bool has_places(float place, bool of_row) {
  const float reach = of_row ? kPlacesReach - 64 : kPlacesReach;
  return place > kPlaceOrigin - reach && place < kPlaceOrigin + reach;
}
// How many bins a part of a row begins behind the row; one without tokens, or out of reach, behind all.
constexpr int bins_behind(float row_place, float part_place) {
  const unsigned behind = place_bits(row_place) - place_bits(part_place);
  return behind < 2 * kSelectBins ? static_cast<int>(behind) : 2 * kSelectBins;
}

// A token's mass in its bin: 2^18 is that of the bin's middle. It is what adding to 32 leaves of it.
inline constexpr int kBinMassBits = 18;
constexpr unsigned whole_share(float share) { return place_bits(share + 32.0f) - place_bits(32.0f); }
// A bin's mass among a row's: 2^mass_power() is that of the first one's middle. All of a row's have less than 2^63.
constexpr int mass_power(long long vocabulary) {
  int bits = 0;
  for (int step = 32; step > 0; step /= 2) bits += vocabulary >> (bits + step - 1) != 0 ? step : 0;
  return 62 - bits;
}
// Masses at the cut: 2^32 is the most likely token's, were it in the first bin there.
inline constexpr float kCutMassUnit = 0x1p32f;
constexpr unsigned long long whole_mass(float mass) {
  // The same on every device, which has no <cmath>. NOLINTNEXTLINE(bugprone-incorrect-roundings)
  return static_cast<unsigned long long>(mass + 0.5f);
}
constexpr unsigned long long scale_mass(unsigned long long mass, float by) {
  return whole_mass(static_cast<float>(mass) * by);
}

// Bins before `first` are of the choice, those from it to `last` hold its end, or are the rest.
struct BinRange {
  int first, last;
};
// Where min_p ends, but for what differences err; `above` is where the most likely token is above its bin's middle, in octaves.
constexpr BinRange bins_of_floor(float floor, float above) {
  constexpr float kUnsure = 0x1p-6f, kLast = kSelectBins - 1;
  const float middle = (floor * kLog2E + above) * (-1 / kBinWidth) + 0.5f, from = middle - kUnsure,
              to = middle + kUnsure;
  return {from < 0       ? 0
          : from < kLast ? static_cast<int>(from)
                         : kSelectBins - 1,
          to < kLast ? static_cast<int>(to) : kSelectBins - 1};
}

// Where it ends with min_p too. The mass of the k is found up to the k-th, wherever min_p ends.
constexpr BinRange with_floor(const BinRange& cut, const BinRange& floor, bool of_the_k) {
  return {floor.first < cut.first ? floor.first : cut.first,
          floor.last < cut.last && !of_the_k ? floor.last : cut.last};
}

// ---- Random numbers ----------------------------------------------------------------------------------------------------

// The upper 64 bits of a product.
constexpr unsigned long long high_product(unsigned long long a, unsigned long long b) {
  const unsigned long long a0 = a & 0xFFFFFFFFu, a1 = a >> 32, b0 = b & 0xFFFFFFFFu, b1 = b >> 32;
  const unsigned long long middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xFFFFFFFFu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}
// Two numbers of 0 to 1 a try, in units of 2^-64: the first one names the bin, the second one the token in it. Philox has the
// row's seed for its key, for its counter the row's offset and which try it is.
struct DrawNumbers {
  unsigned long long bin, token;
};
constexpr DrawNumbers draw_numbers(const SampleRule& rule, unsigned turn) {
  const PhiloxWords w = philox(rule.seed, rule.offset, turn);
  return {static_cast<unsigned long long>(w.word[1]) << 32 | w.word[0],
          static_cast<unsigned long long>(w.word[3]) << 32 | w.word[2]};
}

}  // namespace tilewright
