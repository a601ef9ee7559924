// SPDX-License-Identifier: MIT
// Moments of a row on CPUs and what it has to do with others beside it, in one pass: as row_moments.hpp; products of differences are put together as
// squares are (Schubert and Gertz, Numerically Stable Parallel Computation of (Co-)Variance, SSDBM 2018).
#pragma once

#include "tile/cpu/row_moments.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kComomentVectors = 4;

// Means of x and of g, the variance of x, and the mean of products of their differences from these.
struct RowComoments {
  float mean, other_mean, variance, products;
};

// Of each of 16 lanes. x's numbers are differences from one of the row's, so that a mean far above them loses nothing.
struct LaneComoments {
  F32x16 mean = F32x16::splat(0), other_mean = F32x16::splat(0);
  F32x16 squares = F32x16::splat(0), products = F32x16::splat(0);  // of differences from the means
  float count = 0;

  // `more` numbers in each lane.
  TILEWRIGHT_INLINE void add(F32x16 their_mean, F32x16 their_other, F32x16 their_squares, F32x16 their_products,
                             float more) {
    const F32x16 share = F32x16::splat(more / (count + more)), both = F32x16::splat(count * more / (count + more));
    const F32x16 off = their_mean - mean, other_off = their_other - other_mean, weight = off * both;
    mean = fma(off, share, mean), other_mean = fma(other_off, share, other_mean);
    squares = squares + fma(weight, off, their_squares);
    products = products + fma(weight, other_off, their_products);
    count += more;
  }
};

// Of x(piece) and g(piece), which are asked for once.
template <class X, class G>
TILEWRIGHT_INLINE RowComoments find_comoments(long long length, X&& x, G&& g) {
  F32x16 about = F32x16::splat(0);
  const auto begin = [&](F32x16 v) __attribute__((always_inline)) { about = F32x16::splat(first_lane(v)); };
  LaneComoments so_far;
  long long n = 0;
  for (; n + kComomentVectors * kVec <= length; n += kComomentVectors * kVec) {
    F32x16 v[kComomentVectors], w[kComomentVectors];
    unroll<kComomentVectors>([&](auto i) __attribute__((always_inline)) {
      const RowPiece<true> at{n + i * kVec, kVec};
      v[i] = x(at), w[i] = g(at);
    });
    if (n == 0) begin(v[0]);
    unroll<kComomentVectors>([&](auto i) __attribute__((always_inline)) { v[i] = v[i] - about; });
    constexpr float kShare = 1.0f / kComomentVectors;
    const F32x16 mean = ((v[0] + v[1]) + (v[2] + v[3])) * F32x16::splat(kShare);
    const F32x16 other = ((w[0] + w[1]) + (w[2] + w[3])) * F32x16::splat(kShare);
    F32x16 squares = F32x16::splat(0), products = F32x16::splat(0);
    unroll<kComomentVectors>([&](auto i) __attribute__((always_inline)) {
      const F32x16 off = v[i] - mean;
      squares = fma(off, off, squares), products = fma(off, w[i] - other, products);
    });
    so_far.add(mean, other, squares, products, kComomentVectors);
  }
  for (; n + kVec <= length; n += kVec) {
    const RowPiece<true> at{n, kVec};
    const F32x16 v = x(at);
    if (n == 0) begin(v);
    so_far.add(v - about, g(at), F32x16::splat(0), F32x16::splat(0), 1);
  }
  F32x16 counts = F32x16::splat(so_far.count);
  F32x16 &mean = so_far.mean, &other = so_far.other_mean, &squares = so_far.squares, &products = so_far.products;
  if (n < length) {
    // One more in some lanes.
    const RowPiece<false> rest{n, static_cast<int>(length - n)};
    const F32x16 v = x(rest);
    if (n == 0) begin(v);
    const F32x16 share = F32x16::splat(1 / (so_far.count + 1)), both = F32x16::splat(so_far.count) * share;
    const F32x16 off = within_row(v - about - mean, rest), other_off = within_row(g(rest) - other, rest);
    squares = fma(off * off, both, squares), products = fma(off * other_off, both, products);
    mean = fma(off, share, mean), other = fma(other_off, share, other);
    counts = counts + within_row(F32x16::splat(1), rest);
  }
  // The lanes'.
  const auto all = static_cast<float>(length);
  const float mean_of_lanes = sum_lanes(counts * mean) / all, other_of_lanes = sum_lanes(counts * other) / all;
  const F32x16 off = mean - F32x16::splat(mean_of_lanes), other_off = other - F32x16::splat(other_of_lanes);
  return {first_lane(about) + mean_of_lanes, other_of_lanes, sum_lanes(fma(counts * off, off, squares)) / all,
          sum_lanes(fma(counts * off, other_off, products)) / all};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
