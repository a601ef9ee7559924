// SPDX-License-Identifier: MIT
// Division by a number that the host knows: a multiplication and a correction, where a division takes forty instructions. Freestanding.
#pragma once

namespace tilewright {

struct Denominator {
  unsigned by, reciprocal;
};
constexpr Denominator denominator(unsigned by) { return {by, 0xFFFFFFFFu / by}; }

// Of x below 2^31: what the reciprocal lacks is less than one.
constexpr unsigned divided(unsigned x, Denominator d) {
  const auto least = static_cast<unsigned>((static_cast<unsigned long long>(x) * d.reciprocal) >> 32);
  return x - least * d.by >= d.by ? least + 1 : least;
}

}  // namespace tilewright
