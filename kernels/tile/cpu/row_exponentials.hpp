// SPDX-License-Identifier: MIT
// The largest value of a row and the sum of its exponentials, for which it is read once.
#pragma once

#include "tile/cpu/row.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// exp(factor (x - most)) as 2^(by (x - most)).
struct RowExponential {
  F32x16 most, by;

  TILEWRIGHT_INLINE RowExponential(float most_of_row, float factor)
      : most(F32x16::splat(most_of_row)), by(F32x16::splat(log2_factor(factor))) {}
  TILEWRIGHT_INLINE F32x16 operator()(F32x16 x) const { return exp2_below_one(x - most, by); }
};
// A function: it is called once a row.
inline __attribute__((noinline)) float exponential_of(float x, float most, float factor) {
  float lane[kVec];
  RowExponential(most, factor)(F32x16::splat(x)).store(lane);
  return lane[0];
}

// Where those of a unit's rows may be kept: near by, or in the workspace, or nowhere.
TILEWRIGHT_INLINE float* kept_exponentials(const RowArgs& args, unsigned unit, float (&near_by)[kExponentialPart]) {
  if (args.n <= kExponentialPart) return near_by;
  return args.parts == nullptr ? nullptr : args.parts + unit * args.part_count;
}

// Whether x is known to have 16 bits.
template <DType kX>
inline constexpr bool kShortValues = kX == DType::kBf16 || kX == DType::kF16;

struct RowExponentials {
  float most, sum;
  float kept;  // times this, what was kept is exp(factor (value - most))
};
// Of exp(factor (value(piece) - most)), all of which are left in `kept`, if there is one, with room for a multiple of 16. kShort: values have 16
// bits, whose differences lose nothing that counts: then each is asked for once, and exponentials are of differences from the largest of the row's first
// elements, as long as it is not far below the largest of all. They take longer than memory does, so what is next is fetched beside them.
template <bool kShort, class Next, class Value>
TILEWRIGHT_INLINE RowExponentials sum_exponentials(long long length, float factor, const Next& next, Value&& value,
                                                   float* kept = nullptr) {
  constexpr long long kFirst = 128, kFew = 1024;  // elements of a row of which it is the largest
  const bool all = !kShort || length <= kFew;
  constexpr float kFar = 40;  // exp of it, times a row's length, is far from infinity
  float about = largest_value(all ? length : kFirst, kLeastValue, value);
  F32x16 most;
  // `seeks`: whether there is a larger one.
  const auto sum_about = [&](auto seeks) __attribute__((always_inline)) {
    const RowExponential exponential(about, factor);
    float sum = 0;
    for (long long begin = 0; begin < length; begin += kExponentialPart) {
      const long long count = length - begin < kExponentialPart ? length - begin : kExponentialPart;
      float more[1];
      sum_row(count, more, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
        const decltype(piece) here{begin + piece.n, piece.count};
        next.fetch_next(here);
        const F32x16 v = value(here), e = within_row(exponential(v), here);
        if constexpr (seeks.value != 0) most = at_least(within_row(v, here, about), most);
        if (kept != nullptr) e.store(kept + here.n);
        part[0] = part[0] + e;
      });
      sum += more[0];
    }
    return sum;
  };
  if (all) return {about, sum_about(Index<0>{}), 1};
  for (;;) {
    most = F32x16::splat(about);
    const float sum = sum_about(Index<1>{});
    const float found = largest_number(most);
    if (!(factor * (found - about) > kFar)) {
      // The largest one's is 1 of the sum, but for rounding.
      const float to = exponential_of(about, found, factor), whole = sum * to;
      return {found, found > about && whole < 1 ? 1 : whole, to};
    }
    about = found;
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
