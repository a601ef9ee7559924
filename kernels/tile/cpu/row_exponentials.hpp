// SPDX-License-Identifier: MIT
// The largest value of a row and the sum of its exponentials, read once from memory: the sum is scaled as larger values are met.
#pragma once

#include "tile/cpu/row.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr long long kExponentialPart = 4096;  // elements that stay in the first cache

// A function: it is called once a part.
inline __attribute__((noinline)) float exp_one(float x) {
  float lane[kVec];
  exp(F32x16::splat(x)).store(lane);
  return lane[0];
}

struct RowExponentials {
  float most, sum;
};
// Of exp(factor (value(piece) - most)).
template <class Value>
TILEWRIGHT_INLINE RowExponentials sum_exponentials(long long length, float factor, Value&& value) {
  // The largest of a part, then the sum of its exponentials; what was summed before is scaled where it was not the largest.
  float most = kLeastValue, sum = 0;
  for (long long begin = 0; begin < length; begin += kExponentialPart) {
    const long long count = length - begin < kExponentialPart ? length - begin : kExponentialPart;
    const auto here = [&](auto piece) __attribute__((always_inline)) {
      return value(decltype(piece){begin + piece.n, piece.count});
    };
    const float before = most;
    most = largest_value(count, most, here);
    float more[1];
    sum_row(count, more, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
      part[0] = part[0] + within_row(exp((here(piece) - F32x16::splat(most)) * F32x16::splat(factor)), piece);
    });
    sum = sum * exp_one((before - most) * factor) + more[0];
  }
  return {most, sum};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
