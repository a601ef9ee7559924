// SPDX-License-Identifier: MIT
// The largest value of a row and the sum of its exponentials, read once from memory: the sum is scaled as larger values are met.
#pragma once

#include "tile/cpu/row.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr long long kExponentialPart = 4096;  // elements that stay in the first cache

// exp(factor (x - most)) as 2^(by (x - most)).
struct RowExponential {
  F32x16 most, by;

  TILEWRIGHT_INLINE RowExponential(float most_of_row, float factor)
      : most(F32x16::splat(most_of_row)), by(F32x16::splat(log2_factor(factor))) {}
  TILEWRIGHT_INLINE F32x16 operator()(F32x16 x) const { return exp2_below_one(x - most, by); }
};
// A function: it is called once a part.
inline __attribute__((noinline)) float exponential_of(float x, float most, float factor) {
  float lane[kVec];
  RowExponential(most, factor)(F32x16::splat(x)).store(lane);
  return lane[0];
}

struct RowExponentials {
  float most, sum;
};
// Of exp(factor (value(piece) - most)). A row of one part leaves them in `kept`, which has room for it. Exponentials take longer than
// memory does, so what is next is fetched beside them. Values of a part are made once.
template <class Next, class Value>
TILEWRIGHT_INLINE RowExponentials sum_exponentials(long long length, float factor, const Next& next, Value&& value,
                                                   float* kept = nullptr) {
  // The largest of a part, then the sum of its exponentials; what was summed before is scaled where it was not the largest.
  alignas(64) float near_by[kExponentialPart];
  float* const values = kept != nullptr ? kept : near_by;
  float most = kLeastValue, sum = 0;
  for (long long begin = 0; begin < length; begin += kExponentialPart) {
    const long long count = length - begin < kExponentialPart ? length - begin : kExponentialPart;
    const auto here = [&](auto piece) __attribute__((always_inline)) {
      return value(decltype(piece){begin + piece.n, piece.count});
    };
    const float before = most;
    most = largest_value(count, most, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 v = here(piece);
      v.store(values + piece.n);
      return v;
    });
    const RowExponential exponential(most, factor);
    float more[1];
    sum_row(count, more, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
      next.fetch_next(decltype(piece){begin + piece.n, piece.count});
      const F32x16 e = within_row(exponential(F32x16::load(values + piece.n)), piece);
      if (kept != nullptr) e.store(kept + piece.n);
      part[0] = part[0] + e;
    });
    sum = sum * exponential_of(before, most, factor) + more[0];
  }
  return {most, sum};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
