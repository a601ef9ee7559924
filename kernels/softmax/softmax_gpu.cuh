// SPDX-License-Identifier: MIT
// softmax_gpu: a row is read once and kept in registers, where its exponentials take its place; longer ones are read twice, their sum
// scaled as larger values are met. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

// Has no exponential.
inline constexpr float kNothing = __builtin_bit_cast(float, 0xFF800000u);

// exp(factor (x - most)), with log2(e) in the factor.
__device__ __forceinline__ float exponential(float x, float most, float factor) {
  return exp2_approx(__fmul_rn(__fadd_rn(x, -most), factor));
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void softmax_gpu(const RowArgs& given) {
  constexpr bool kKeeps = kConfig.pieces > 0;
  RowInput<kConfig> input(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    const auto load = [&](long long n, int count, Piece& p, int j) {
      input.added(n, count, p, j);
      const int there = anew(count);
      const float sign = anew(args).alpha < 0 ? -1.0f : 1.0f;
      for_elements([&](int i) { p.v[i] = is_there<kConfig>(i, there) ? __fmul_rn(p.v[i], sign) : kNothing; });
    };

    // The factor's sign stands before the largest value is sought, its magnitude behind the difference, which it never overflows.
    const auto scale = [&] { return fabsf(anew(args).alpha); };
    const auto factor = [&] { return __fmul_rn(scale(), 1.44269504f); };
    const auto log = [&] { return anew(args).log; };

    // The largest of this thread's; where they are not kept, the sum of exponentials beside it.
    float most = kLeastValue, sum = 0;
    row.template each<true>(load, [&](long long, int, Piece& p) {
      const float before = most, times = factor();
      for_elements([&](int i) { most = at_least(p.v[i], most); });
      if constexpr (!kKeeps) {
        sum = __fmul_rn(sum, exponential(before, most, times));
        for_elements([&](int i) { sum = __fadd_rn(sum, exponential(p.v[i], most, times)); });
      }
    });
    input.ask_next(row);
    const float mine = most;
    most = row.reduce(most, [](float a, float b) { return at_least(a, b); });

    // The sum of all, from the largest of all.
    if constexpr (kKeeps) {
      row.template each<false>(load, [&](long long, int, Piece& p) {
        const float times = factor();
        const bool keeps = log();
        for_elements([&](int i) {
          const float e = exponential(p.v[i], most, times);
          sum = __fadd_rn(sum, e);
          p.v[i] = keeps ? p.v[i] : e;
        });
      });
    } else {
      sum = __fmul_rn(sum, exponential(mine, most, factor()));
    }
    sum = row.reduce(sum, sum_of);

    // The sum of nothing but minus infinities, which is 0, makes NaN of all.
    const float by = log() ? -log_of_sum(sum) : 1 / sum;
    store_row<kConfig>(row, [&](long long n, int count, Piece& p, int j) {
      if constexpr (!kKeeps) load(n, count, p, j);
      if (log()) {
        const float times = scale();
        return for_elements([&](int i) { p.v[i] = __fadd_rn(__fmul_rn(__fadd_rn(p.v[i], -most), times), by); });
      }
      if constexpr (!kKeeps) {
        const float times = factor();
        for_elements([&](int i) { p.v[i] = exponential(p.v[i], most, times); });
      }
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], by); });
    });
  });
}

}  // namespace tilewright
