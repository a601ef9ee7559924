// SPDX-License-Identifier: MIT
// Quotient and rest of numbers of 64 bits, by a division of 32 bits where both are short. Freestanding.
#pragma once

namespace tilewright {

struct Quotient {
  long long whole, rest;
};
constexpr Quotient divided_by(long long a, long long b) {
  if ((a | b) >> 32 == 0) {
    const auto x = static_cast<unsigned>(a), y = static_cast<unsigned>(b);
    return {x / y, x % y};
  }
  return {a / b, a % b};
}

}  // namespace tilewright
