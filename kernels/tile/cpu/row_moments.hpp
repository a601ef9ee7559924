// SPDX-License-Identifier: MIT
// Mean and variance of a row on CPUs, in one pass: of a few vectors at a time in registers, first their mean and then what lies about
// it; moments so far and those of the next few are put together as Chan, Golub and LeVeque do (The American
// Statistician 37, 1983).
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kMomentVectors = 8;

// Of each of 16 lanes. Numbers are differences from one of the row's, so that a mean far above them loses nothing.
struct LaneMoments {
  F32x16 mean = F32x16::splat(0), squares = F32x16::splat(0);  // squares: of differences from the mean
  float count = 0;

  // `more` numbers in each lane.
  TILEWRIGHT_INLINE void add(F32x16 their_mean, F32x16 their_squares, float more) {
    const float share = more / (count + more);
    const F32x16 off = their_mean - mean;
    mean = fma(off, F32x16::splat(share), mean);
    squares = squares + fma(off * off, F32x16::splat(count * share), their_squares);
    count += more;
  }
};

TILEWRIGHT_INLINE float first_lane(F32x16 v) {
  float lane[kVec];
  v.store(lane);
  return lane[0];
}

// Of value(piece), which is asked for once.
template <class Value>
TILEWRIGHT_INLINE RowMoments find_moments(long long length, Value&& value) {
  F32x16 about = F32x16::splat(0);
  const auto begin = [&](F32x16 v) __attribute__((always_inline)) { about = F32x16::splat(first_lane(v)); };
  LaneMoments so_far;
  long long n = 0;
  for (; n + kMomentVectors * kVec <= length; n += kMomentVectors * kVec) {
    F32x16 v[kMomentVectors], sum[2], squares[2] = {F32x16::splat(0), F32x16::splat(0)};
    unroll<kMomentVectors>([&](auto i)
                               __attribute__((always_inline)) { v[i] = value(RowPiece<true>{n + i * kVec, kVec}); });
    if (n == 0) begin(v[0]);
    unroll<kMomentVectors>([&](auto i) __attribute__((always_inline)) {
      v[i] = v[i] - about;
      sum[i % 2] = i < 2 ? v[i] : sum[i % 2] + v[i];
    });
    const F32x16 mean = (sum[0] + sum[1]) * F32x16::splat(1.0f / kMomentVectors);
    unroll<kMomentVectors>([&](auto i) __attribute__((always_inline)) {
      const F32x16 off = v[i] - mean;
      squares[i % 2] = fma(off, off, squares[i % 2]);
    });
    so_far.add(mean, squares[0] + squares[1], kMomentVectors);
  }
  for (; n + kVec <= length; n += kVec) {
    const F32x16 v = value(RowPiece<true>{n, kVec});
    if (n == 0) begin(v);
    so_far.add(v - about, F32x16::splat(0), 1);
  }
  F32x16 counts = F32x16::splat(so_far.count), &mean = so_far.mean, &squares = so_far.squares;
  if (n < length) {
    // One more in some lanes.
    const RowPiece<false> rest{n, static_cast<int>(length - n)};
    const F32x16 v = value(rest);
    if (n == 0) begin(v);
    const float share = 1 / (so_far.count + 1);
    const F32x16 off = within_row(v - about - mean, rest);
    mean = fma(off, F32x16::splat(share), mean);
    squares = fma(off * off, F32x16::splat(so_far.count * share), squares);
    counts = counts + within_row(F32x16::splat(1), rest);
  }
  // The lanes'.
  const auto all = static_cast<float>(length);
  const float mean_of_lanes = sum_lanes(counts * mean) / all;
  const F32x16 off = mean - F32x16::splat(mean_of_lanes);
  return {first_lane(about) + mean_of_lanes, sum_lanes(fma(counts * off, off, squares)) / all};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
