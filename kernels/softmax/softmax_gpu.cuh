// SPDX-License-Identifier: MIT
// softmax_gpu: a row is read once and kept in registers, where its exponentials take its place. Longer ones are taken in chunks
// (row_chunk.cuh): each has a largest value and a sum. Typed by its config, or at run time.
#pragma once

#include "tile/common/logarithms.hpp"
#include "tile/gpu/row_exponentials.cuh"

namespace tilewright {

// The factor's sign stands before the largest value is sought, its magnitude behind the difference,
// which it never overflows.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void sign_piece(const RowArgs& args, int count, Piece& p) {
  const int there = anew(count);
  const float sign = anew(args).alpha < 0 ? -1.0f : 1.0f;
  for_elements([&](int i) { p.v[i] = is_there<kConfig>(i, there) ? __fmul_rn(p.v[i], sign) : kNothing; });
}
__device__ __forceinline__ float softmax_scale(const RowArgs& args) { return fabsf(anew(args).alpha); }
__device__ __forceinline__ float softmax_factor(const RowArgs& args) { return __fmul_rn(softmax_scale(args), kLog2E); }
// What an output is multiplied by, or with the logarithm what is added. The sum of nothing but minus infinities, which is 0, makes NaN
// of all.
__device__ __forceinline__ float softmax_by(const RowArgs& args, float sum) {
  return anew(args).log ? -log_of_sum(sum) : 1 / sum;
}
__device__ __forceinline__ void finish_log(const RowArgs& args, float most, float by, Piece& p) {
  const float times = softmax_scale(args);
  for_elements([&](int i) { p.v[i] = __fadd_rn(__fmul_rn(__fadd_rn(p.v[i], -most), times), by); });
}

// A row in registers.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void softmax_kept(const RowArgs& given) {
  RowInput<kConfig> input(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    const auto load = [&](long long n, int count, Piece& p, int j) {
      input.added(n, count, p, j);
      sign_piece<kConfig>(args, count, p);
    };
    float most = kLeastValue, sum = 0;
    row.template each<true>(
        load, [&](long long, int, Piece& p) { for_elements([&](int i) { most = at_least(p.v[i], most); }); });
    most = row.reduce(most, [](float a, float b) { return at_least(a, b); });
    row.template each<false>(load, [&](long long, int, Piece& p) {
      const float times = softmax_factor(args);
      const bool keeps = anew(args).log;
      for_elements([&](int i) {
        const float e = exponential(p.v[i], most, times);
        sum = __fadd_rn(sum, e);
        p.v[i] = keeps ? p.v[i] : e;
      });
    });
    sum = row.reduce(sum, sum_of);
    const float by = softmax_by(args, sum);
    store_row<kConfig>(row, [&](long long, int, Piece& p, int) {
      if (anew(args).log) return finish_log(args, most, by, p);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], by); });
    });
  });
}

// The largest value of some elements and the sum of their exponentials.
struct SoftmaxPair {
  float most, sum;
};
__device__ __forceinline__ SoftmaxPair merged(const SoftmaxPair& a, const SoftmaxPair& b, float factor) {
  const float most = at_least(a.most, b.most);
  return {most,
          __fmaf_rn(b.sum, exponential(b.most, most, factor), __fmul_rn(a.sum, exponential(a.most, most, factor)))};
}

// What chunks of a row are reduced to, and become.
template <RowGpuConfig kConfig>
struct SoftmaxChunks {
  using Found = SoftmaxPair;
  using Chunk = RowChunk<kConfig>;
  static constexpr Found kNone{kLeastValue, 0};
  const GpuRow<kConfig>& row;
  float most, by;
  RowExponentials<kConfig> made;

  __device__ __forceinline__ explicit SoftmaxChunks(const GpuRow<kConfig>& of) : row(of) {}
  __device__ __forceinline__ static constexpr bool reads() { return true; }
  __device__ __forceinline__ static constexpr bool stores() { return true; }
  __device__ __forceinline__ void prepare(int count, Piece& p) const { sign_piece<kConfig>(row.args, count, p); }
  __device__ __forceinline__ Found find(Chunk& part, int chunk) {
    const auto prepared = [&](int count, Piece& p) { prepare(count, p); };
    Found of = kNone;
    of.most = made.find_largest(part, chunk, anew(row.args).alpha < 0, prepared);
    of.sum = made.find_sum(part, chunk, softmax_factor(row.args), anew(row.args).log, prepared);
    return of;
  }
  __device__ __forceinline__ Found merge(const Found& a, const Found& b) const {
    return merged(a, b, softmax_factor(row.args));
  }
  // Of a cluster's chunks: by lanes, or, where 32 bits an element leave no registers for that, one after the other.
  template <int kChunks, class At>
  __device__ __forceinline__ Found merge_all(At&& at) const {
    const float times = softmax_factor(row.args);
    if constexpr (Chunk::kIsPairs) {
      const Found& mine = at(static_cast<int>(threadIdx.x % kChunks));
      float sum[1] = {mine.sum};
      const float most = join_lanes<kChunks>(mine.most, sum, times);
      return {most, sum[0]};
    }
    [[maybe_unused]] constexpr int kTogether = RowExponentials<kConfig>::kKeeps ? 2 : 1;
    Found all = kNone;
#pragma unroll kTogether
    for (int c = 0; c < kChunks; ++c) all.most = at_least(at(c).most, all.most);
#pragma unroll kTogether
    for (int c = 0; c < kChunks; ++c) all.sum = __fmaf_rn(at(c).sum, exponential(at(c).most, all.most, times), all.sum);
    return all;
  }
  __device__ __forceinline__ void finish(const Found& all, bool) {
    most = all.most, by = softmax_by(row.args, all.sum);
  }
  __device__ __forceinline__ void store(const Chunk& part, int chunk) const {
    const RowArgs& args = row.args;
    const float times = softmax_factor(args), factor = __fmul_rn(made.joining(part, most, times), by);
    const auto prepared = [&](int count, Piece& p) { prepare(count, p); };
    made.each_made(part, chunk, most, times, prepared, [&](long long n, int count, Piece& of, auto&& make) {
      if (anew(args).log) {
        finish_log(args, most, by, of);
      } else {
        for_elements([&](int i) { of.v[i] = __fmul_rn(make(of.v[i]), factor); });
      }
      part.store_one(n, count, of);
    });
  }
};

template <RowGpuConfig kConfig>
__device__ __forceinline__ void softmax_gpu(const RowArgs& args) {
  if constexpr (kConfig.cluster > 1) {
    reduce_clusters<kConfig, SoftmaxChunks<kConfig>>(args);
  } else if constexpr (kConfig.pieces > 0) {
    softmax_kept<kConfig>(args);
  } else {
    reduce_chunks<kConfig, SoftmaxChunks<kConfig>>(args);
  }
}

}  // namespace tilewright
