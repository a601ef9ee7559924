// SPDX-License-Identifier: MIT
// What tests of random problems draw with, and how many they draw.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace tilewright::test {

using Random = std::mt19937_64;

inline int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}
inline bool chance(Random& random, double p) { return std::uniform_real_distribution<>(0, 1)(random) < p; }

inline int from_environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

}  // namespace tilewright::test
