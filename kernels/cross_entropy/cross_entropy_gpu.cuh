// SPDX-License-Identifier: MIT
// cross_entropy_gpu: the loss of a row and its gradient. A row is read once and kept in registers; longer ones are read twice, in chunks:
// for the largest value and the sum of exponentials, and for the gradient. Typed by its config, or at run time.
#pragma once

#include "tile/common/logarithms.hpp"
#include "tile/gpu/row_exponentials.cuh"

namespace tilewright {

// The target of a row, what its loss is found from, and what its gradient is made of.
template <RowGpuConfig kConfig>
struct RowTarget {
  const RowArgs& args;
  int target;
  bool ignored;

  __device__ __forceinline__ explicit RowTarget(const GpuRow<kConfig>& row)
      : args(row.args), target(args.loss.target[row_offset(args.loss.stride_target, row.at)]) {
    ignored = is_ignored(args, target);
  }
  __device__ __forceinline__ bool known() const { return target >= 0 && target < args.n; }
  // Before any gradient stands where it stood.
  __device__ __forceinline__ float logit(const GpuRow<kConfig>& row) const {
    if (!known()) return __builtin_bit_cast(float, 0x7FC00000u);
    const char* const x = row_start<kConfig.x>(args.x, row.at);
    const DType type = kConfig.x == DType::kNone ? args.x.dtype : kConfig.x;
    if (type == DType::kF32) return reinterpret_cast<const float*>(x)[target];
    return widen_16(type == DType::kBf16, reinterpret_cast<const unsigned short*>(x)[target]);
  }
  // One thread of a row writes what it comes to.
  __device__ __forceinline__ void write(const GpuRow<kConfig>& row, const RowLogits& of) const {
    const RowArgs& given = anew(args);
    given.loss.loss[row_offset(given.loss.stride_loss, row.at)] = row_loss(given, target, of);
    if (given.loss.lse != nullptr)
      given.loss.lse[row_offset(given.loss.stride_lse, row.at)] = __fadd_rn(of.most, of.logarithm);
  }
  // The gradient of a piece; make(v) is an exponential of what it has, and `factor` makes it a probability.
  template <class Make>
  __device__ __forceinline__ void change(const RowGradient& by, float factor, long long n, Piece& p,
                                         Make&& make) const {
    if (ignored) return for_elements([&](int i) { p.v[i] = 0; });
    for_elements([&](int i) { p.v[i] = __fadd_rn(__fmul_rn(make(p.v[i]), factor), -by.even); });
    const int place = target - static_cast<int>(n);
    if (static_cast<unsigned>(place) < static_cast<unsigned>(kRowPiece))
      for_elements([&](int i) { p.v[i] = i == place ? __fadd_rn(p.v[i], -by.hot) : p.v[i]; });
  }
};

// Whether there is a gradient to write; typed kernels know.
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool writes_gradient(const RowArgs& args) {
  if constexpr (kConfig.x != DType::kNone) return kConfig.out != DType::kNone;
  return anew(args).out.data != nullptr;
}
// Nothing where nothing is.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void clear_absent(int count, Piece& p) {
  const int there = anew(count);
  for_elements([&](int i) { p.v[i] = is_there<kConfig>(i, there) ? p.v[i] : kNothing; });
}

// A row in registers.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void cross_entropy_kept(const RowArgs& given) {
  RowInput<kConfig> input(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    const RowTarget<kConfig> target(row);
    RowLogits of{0, kLeastValue, 0, 0};
    if (row.thread == 0) of.target = target.logit(row);

    // The largest value, and where targets are smoothed the sum.
    const auto load = [&](long long n, int count, Piece& p, int j) {
      input.added(n, count, p, j);
      clear_absent<kConfig>(count, p);
    };
    row.template each<true>(load, [&](long long, int count, Piece& p) {
      for_elements([&](int i) { of.most = at_least(p.v[i], of.most); });
      if (anew(args).loss.smoothing != 0) {
        const int there = anew(count);
        for_elements([&](int i) { of.total = __fadd_rn(of.total, is_there<kConfig>(i, there) ? p.v[i] : 0); });
      }
    });
    of.most = row.reduce(of.most, [](float a, float b) { return at_least(a, b); });

    // Exponentials, once more for the gradient.
    float sums[2] = {0, of.total};
    row.template each<false>(load, [&](long long, int, Piece& p) {
      for_elements([&](int i) { sums[0] = __fadd_rn(sums[0], exponential(p.v[i], of.most, kLog2E)); });
    });
    row.reduce(sums, sum_of);
    of.total = sums[1], of.logarithm = log_of_sum(sums[0]);
    if (row.there && row.thread == 0) target.write(row, of);
    if (!writes_gradient<kConfig>(args)) return;
    const RowGradient by = row_gradient(anew(args), target.target, __fadd_rn(of.most, of.logarithm), sums[0]);
    store_row<kConfig>(row, [&](long long n, int, Piece& p, int) {
      target.change(by, by.by, n, p, [&](float x) { return exponential(x, of.most, kLog2E); });
    });
  });
}

// What chunks of a row are reduced to, and become.
template <RowGpuConfig kConfig>
struct CrossEntropyChunks {
  struct Found {
    float most, sum, total, target;  // of the target in the first thread
  };
  static constexpr Found kNone{kLeastValue, 0, 0, 0};
  using Chunk = RowChunk<kConfig>;
  const GpuRow<kConfig>& row;
  RowTarget<kConfig> target;
  float most;
  RowGradient by;
  RowExponentials<kConfig> made;

  __device__ __forceinline__ explicit CrossEntropyChunks(const GpuRow<kConfig>& of) : row(of), target(of) {}
  // What counts nothing is not read, unless that would part the threads of a block.
  __device__ __forceinline__ bool reads() const {
    if constexpr (GpuRow<kConfig>::kRows > 1) return true;
    return !target.ignored || row.args.loss.lse != nullptr;
  }
  __device__ __forceinline__ void prepare(int count, Piece& p) const { clear_absent<kConfig>(count, p); }
  __device__ __forceinline__ Found find(Chunk& part, int chunk) {
    Found of = kNone;
    const long long begin = static_cast<long long>(chunk) * part.kSize, end = begin + part.kSize;
    if (part.thread() == 0 && (target.known() ? target.target >= begin && target.target < end : chunk == 0))
      of.target = target.logit(row);
    const auto prepared = [&](int count, Piece& p) { prepare(count, p); };
    of.most = made.find_largest(part, chunk, false, prepared);
    // One value at a time: of two, those that other warps left would take twice the registers.
    if (anew(row.args).loss.smoothing != 0) {
      made.each(part, chunk, prepared, [&](long long, int count, const Piece& p, int) {
        const int there = anew(count);
        for_elements([&](int i) { of.total = __fadd_rn(of.total, is_there<kConfig>(i, there) ? p.v[i] : 0); });
      });
      of.total = part.reduce(of.total, sum_of);
    }
    of.sum = made.find_sum(part, chunk, kLog2E, false, prepared);
    return of;
  }
  __device__ __forceinline__ Found merge(const Found& a, const Found& b) const {
    const float larger = at_least(a.most, b.most);
    return {
        larger,
        __fmaf_rn(b.sum, exponential(b.most, larger, kLog2E), __fmul_rn(a.sum, exponential(a.most, larger, kLog2E))),
        __fadd_rn(a.total, b.total), __fadd_rn(a.target, b.target)};
  }
  // Of a cluster's chunks, as softmax's.
  template <int kChunks, class At>
  __device__ __forceinline__ Found merge_all(At&& at) const {
    if constexpr (Chunk::kIsPairs) {
      const Found& mine = at(static_cast<int>(threadIdx.x % kChunks));
      float sums[3] = {mine.sum, mine.total, mine.target};
      const float most = join_lanes<kChunks>(mine.most, sums, kLog2E);
      return {most, sums[0], sums[1], sums[2]};
    }
    [[maybe_unused]] constexpr int kTogether = RowExponentials<kConfig>::kKeeps ? 2 : 1;
    Found all = kNone;
#pragma unroll kTogether
    for (int c = 0; c < kChunks; ++c) all.most = at_least(at(c).most, all.most);
#pragma unroll kTogether
    for (int c = 0; c < kChunks; ++c) {
      const Found& of = at(c);
      all.sum = __fmaf_rn(of.sum, exponential(of.most, all.most, kLog2E), all.sum);
      all.total = __fadd_rn(of.total, all.total), all.target = __fadd_rn(of.target, all.target);
    }
    return all;
  }
  __device__ __forceinline__ void finish(const Found& all, bool first) {
    const RowLogits of{log_of_sum(all.sum), all.most, all.target, all.total};
    if (first && row.there && row.thread == 0) target.write(row, of);
    most = all.most;
    by = row_gradient(anew(row.args), target.target, __fadd_rn(of.most, of.logarithm), all.sum);
  }
  __device__ __forceinline__ bool stores() const { return writes_gradient<kConfig>(row.args); }
  __device__ __forceinline__ void store(const Chunk& part, int chunk) const {
    const auto prepared = [&](int count, Piece& p) { prepare(count, p); };
    const float factor = __fmul_rn(made.joining(part, most, kLog2E), by.by);
    made.each_made(part, chunk, most, kLog2E, prepared, [&](long long n, int count, Piece& p, auto&& make) {
      target.change(by, factor, n, p, make);
      part.store_one(n, count, p);
    });
  }
};

template <RowGpuConfig kConfig>
__device__ __forceinline__ void cross_entropy_gpu(const RowArgs& args) {
  if constexpr (kConfig.cluster > 1) {
    reduce_clusters<kConfig, CrossEntropyChunks<kConfig>>(args);
  } else if constexpr (kConfig.pieces > 0) {
    cross_entropy_kept<kConfig>(args);
  } else {
    reduce_chunks<kConfig, CrossEntropyChunks<kConfig>>(args);
  }
}

}  // namespace tilewright
