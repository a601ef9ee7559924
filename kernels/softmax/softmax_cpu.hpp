// SPDX-License-Identifier: MIT
// softmax_cpu: a row is read twice: for its largest value and the sum of exponentials, which is scaled as larger values are met, and
// for the output. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_store.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr long long kSoftmaxPart = 4096;  // elements that stay in the first cache

// A function: it is called once a part.
inline __attribute__((noinline)) float exp_one(float x) {
  float lane[kVec];
  exp(F32x16::splat(x)).store(lane);
  return lane[0];
}

template <RowCpuConfig kConfig>
void softmax_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);
    // The factor's sign stands before the largest value is sought, its magnitude behind the difference, which it never overflows.
    const float sign = args.alpha < 0 ? -1 : 1, factor = sign * args.alpha;
    const auto value = [&](auto piece)
                           __attribute__((always_inline)) { return input.added(piece) * F32x16::splat(sign); };

    // The largest of a part, then the sum of its exponentials; what was summed before is scaled where it was not the largest.
    float most = kLeastValue, sum = 0;
    for (long long begin = 0; begin < args.n; begin += kSoftmaxPart) {
      const long long length = args.n - begin < kSoftmaxPart ? args.n - begin : kSoftmaxPart;
      const auto here = [&](auto piece) __attribute__((always_inline)) {
        return value(decltype(piece){begin + piece.n, piece.count});
      };
      const float before = most;
      most = largest_value(length, most, here);
      float more[1];
      sum_row(length, more, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
        part[0] = part[0] + within_row(exp((here(piece) - F32x16::splat(most)) * F32x16::splat(factor)), piece);
      });
      sum = sum * exp_one((before - most) * factor) + more[0];
    }

    // Without an exponential, the sum of nothing but minus infinities makes NaN of all.
    const float inverse = 1 / sum, logarithm = args.log ? log_of_sum(sum) : 0;
    store_row<kConfig>(args, at, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 d = (value(piece) - F32x16::splat(most)) * F32x16::splat(factor);
      return args.log ? d - F32x16::splat(logarithm) : exp(d) * F32x16::splat(inverse);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
