// SPDX-License-Identifier: MIT
// What tests of random problems draw with, and how many they draw.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>

namespace tilewright::test {

using Random = std::mt19937_64;

inline int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}
inline bool chance(Random& random, double p) { return std::uniform_real_distribution<>(0, 1)(random) < p; }

// One of the texts.
inline std::string pick_one(Random& random, std::initializer_list<const char*> texts) {
  return texts.begin()[pick(random, 0, static_cast<int64_t>(texts.size()) - 1)];
}

inline int from_environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}
// How many random problems an operator has: TILEWRIGHT_TEST_PROBLEMS counts gemm's, others keep their proportion to them.
inline constexpr int kGemmProblems = 3000;
inline int random_problems(int usual) {
  return static_cast<int>(int64_t{usual} * from_environment("TILEWRIGHT_TEST_PROBLEMS", kGemmProblems) / kGemmProblems);
}

}  // namespace tilewright::test
