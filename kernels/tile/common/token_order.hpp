// SPDX-License-Identifier: MIT
// The order of a row's elements, tokens of logits among them, as whole numbers, and what ends a choice of the first of them. Freestanding.
#pragma once

#include "tile/common/row_args.hpp"

namespace tilewright {

// Larger logits have larger keys; zeros of both signs are equal.
constexpr unsigned logit_key(float x) {
  const int bits = __builtin_bit_cast(int, x), sign = bits >> 31;
  return static_cast<unsigned>(((bits & 0x7FFFFFFF) ^ sign) - sign) ^ 0x80000000u;
}
// Of equal logits the smaller id stands first. No two tokens have the same key, and none has 0.
constexpr unsigned long long token_key(float x, long long id) {
  return static_cast<unsigned long long>(logit_key(x)) << 32 | (0xFFFFFFFFu - static_cast<unsigned>(id));
}
constexpr long long key_id(unsigned long long key) { return 0xFFFFFFFFu - static_cast<unsigned>(key); }
// The logit, but for the sign of a zero.
constexpr float key_value(unsigned long long key) {
  const int ordered = static_cast<int>(static_cast<unsigned>(key >> 32) ^ 0x80000000u), sign = ordered >> 31;
  return __builtin_bit_cast(float,
                            sign == 0 ? ordered : static_cast<int>(0x80000000u | static_cast<unsigned>(-ordered)));
}

// Tokens belong to the choice while fewer than `count` stand before them, with less than `mass`.
struct ChoiceLimits {
  unsigned count;
  unsigned long long mass;
};
inline constexpr unsigned long long kAllMass = ~0ull;

// A block that chooses together.
inline constexpr int kSelectThreads = 512, kSelectBins = 256, kSelectSharedBytes = 16384;

}  // namespace tilewright
