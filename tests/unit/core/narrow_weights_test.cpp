// SPDX-License-Identifier: MIT
// The integer half of widening narrow weights, for every code in every place of a word.
#include "tile/common/narrow_weights.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tile/common/numeric.hpp"

namespace tilewright {
namespace {

float half_bf16(unsigned pair, int half) { return widen(bf16{static_cast<unsigned short>(pair >> (16 * half))}); }
float half_f16(unsigned pair, int half) { return widen(f16{static_cast<unsigned short>(pair >> (16 * half))}); }
float widen_e2m1(unsigned code) { return widen(e2m1x2{static_cast<unsigned char>(code)}, 0); }

// Every pair of a word, of which one value is `code` and the others are what `fill` says.
template <class Check>
void each_place(DType weight, const Check& check) {
  const int bits = dtype_bits(weight), values = word_values(weight);
  for (unsigned code = 0; code < 1u << bits; ++code) {
    for (int at = 0; at < values; ++at) {
      for (const unsigned fill : {0u, ~0u, 0x9E3779B9u}) {
        const unsigned mask = ((1u << bits) - 1) << (at * bits);
        check((fill & ~mask) | code << (at * bits), at, code);
      }
    }
  }
}
template <template <int> class Pair, int kPairs>
unsigned pair_of(unsigned word, int pair) {
  unsigned found = 0;
  [&]<int... kPair>(std::integer_sequence<int, kPair...>) {
    ((pair == kPair ? found = Pair<kPair>::of(word) : 0), ...);
  }(std::make_integer_sequence<int, kPairs>{});
  return found;
}
// Which pair and half a value of a word is.
std::pair<int, int> place_of(DType weight, int at) {
  for (int pair = 0; pair < word_values(weight) / 2; ++pair) {
    for (int half = 0; half < 2; ++half) {
      if (pair_value(weight, pair, half) == at) return {pair, half};
    }
  }
  ADD_FAILURE() << "no place for value " << at;
  return {};
}

template <int kPair>
struct E2M1Bf16 {
  static unsigned of(unsigned word) { return e2m1_as_bf16<kPair>(word); }
};
template <int kPair>
struct E2M1F16 {
  static unsigned of(unsigned word) { return e2m1_as_f16<kPair>(word); }
};
template <int kPair>
struct I4Bf16 {
  static unsigned of(unsigned word) { return nibbles_as_steps<DType::kI4, DType::kBf16, kPair>(word); }
};
template <int kPair>
struct I4F16 {
  static unsigned of(unsigned word) { return nibbles_as_steps<DType::kI4, DType::kF16, kPair>(word); }
};
template <int kPair>
struct I8F16 {
  static unsigned of(unsigned word) { return i8_as_f16<kPair>(word); }
};
template <int kPair>
struct I8LowBf16 {
  static unsigned of(unsigned word) { return i8_low_as_bf16<kPair>(word); }
};
template <int kPair>
struct I8HighBf16 {
  static unsigned of(unsigned word) { return i8_high_as_bf16<kPair>(word); }
};

TEST(NarrowWeights, E2M1IsItselfTimesAPowerOfTwo) {
  each_place(DType::kF4E2M1, [](unsigned word, int at, unsigned code) {
    const auto [pair, half] = place_of(DType::kF4E2M1, at);
    const float wanted = widen_e2m1(code), wide = half_bf16(pair_of<E2M1Bf16, 4>(word, pair), half);
    EXPECT_EQ(std::ldexp(wide, kE2M1Bf16Shift), wanted) << at;
    EXPECT_EQ(std::signbit(wide), code >= 8);
    const float f16_wide = half_f16(pair_of<E2M1F16, 4>(word, pair), half);
    EXPECT_EQ(std::ldexp(f16_wide, kE2M1F16Shift), wanted) << at;
    EXPECT_EQ(std::signbit(f16_wide), code >= 8);
  });
}

TEST(NarrowWeights, IntegersOfFourBitsAreStepsOffByTheirOffset) {
  each_place(DType::kI4, [](unsigned word, int at, unsigned code) {
    const auto [pair, half] = place_of(DType::kI4, at);
    const float wanted = static_cast<float>(code < 8 ? static_cast<int>(code) : static_cast<int>(code) - 16);
    // Every second pair has steps sixteen times as large.
    const int up = pair % 2 == 0 ? 0 : 4;
    EXPECT_EQ(std::ldexp(half_bf16(pair_of<I4Bf16, 4>(word, pair), half), 133 - up) - 8, wanted);
    EXPECT_EQ(std::ldexp(half_f16(pair_of<I4F16, 4>(word, pair), half) - 1024, -up) - 8, wanted);
  });
}

TEST(NarrowWeights, IntegersOfEightBitsAreOffByTheirOffset) {
  each_place(DType::kI8, [](unsigned word, int at, unsigned code) {
    const auto [pair, half] = place_of(DType::kI8, at);
    const float wanted = static_cast<signed char>(code);
    EXPECT_EQ(half_f16(pair_of<I8F16, 2>(word, pair), half) - 1152, wanted);
    EXPECT_EQ(half_bf16(pair_of<I8LowBf16, 2>(word, pair), half) + half_bf16(pair_of<I8HighBf16, 2>(word, pair), half),
              wanted);
  });
}

}  // namespace
}  // namespace tilewright
