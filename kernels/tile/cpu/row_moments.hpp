// SPDX-License-Identifier: MIT
// Mean and variance of a row on CPUs, in two passes.
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Of first(piece), and then again(piece), which gives the same values.
template <class First, class Again>
TILEWRIGHT_INLINE RowMoments find_moments(long long length, First&& first, Again&& again) {
  // Nearly the mean: a sum of N may have lost some of it.
  const auto n = static_cast<float>(length);
  float sum[2];  // of values, and of their magnitudes
  sum_row(length, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
    const F32x16 v = first(piece);
    part[0] = part[0] + v, part[1] = part[1] + absolute(v);
  });
  const float about = near_mean(sum, n, [](float x) { return __builtin_sqrtf(x); });

  // Differences from there lose nothing to cancellation, and their own mean says how far the mean is.
  sum_row(length, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
    const F32x16 d = within_row(again(piece) - F32x16::splat(about), piece);
    part[0] = part[0] + d, part[1] = fma(d, d, part[1]);
  });
  return row_moments(about, sum, n);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
