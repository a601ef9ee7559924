// SPDX-License-Identifier: MIT
// Writes a row of any output type: as it is, or divided by scales that are given, or found, a row or a group of neighbours at a
// time (docs/quantisation.md).
#pragma once

#include "tile/gpu/row_encode.cuh"
#include "tile/gpu/row_input.cuh"
#include "tile/gpu/row_largest.cuh"
#include "tile/gpu/row_scales.cuh"

namespace tilewright {

// The largest of `sharing` threads that are neighbours; kSharing: as many, unless 0.
template <int kSharing>
__device__ __forceinline__ float largest_of_group(float most, int sharing) {
  const auto merge = [&](int distance) { most = at_least(most, lane_xor(most, static_cast<unsigned>(distance))); };
  if constexpr (kSharing > 0) {
#pragma unroll
    for (int distance = 1; distance < kSharing; distance *= 2) merge(distance);
  } else {
#pragma unroll 1
    for (int distance = 1; distance < sharing; distance *= 2) merge(distance);
  }
  return most;
}

// What is done to quotients before they become codes: nothing.
struct KeepQuotients {
  __device__ __forceinline__ void operator()(DType, long long, long long, Piece&) const {}
};

// The largest of all threads of a call whose blocks are one cluster.
template <RowGpuConfig kConfig>
__device__ __forceinline__ float largest_of_call(float most) {
  float one[1] = {most};
  reduce_threads<row_block_threads(kConfig.threads)>(one, [](float a, float b) { return at_least(a, b); });
  return largest_of_blocks<kConfig>(one[0]);
}
// One of them.
__device__ __forceinline__ bool writes_of_call() { return threadIdx.x == 0 && blockIdx.x == 0; }

// A row of the output, of the values that make(n, count, piece, j) makes, with zeros behind `count`: of those in registers, once;
// or where rows are read again, in each pass. round(out, row, n, piece) has the quotients before they are narrowed.
template <RowGpuConfig kConfig, class Make, class Round = KeepQuotients>
__device__ __forceinline__ void store_row(GpuRow<kConfig>& row, Make&& make, const Round& round = {}) {
  const RowArgs& args = anew(row.args);
  const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
  const Quantisation quant = kConfig.x == DType::kNone ? args.scale.quant : kConfig.quant;
  char* const to = row_start<kConfig.out>(args.out, row.at);
  const long long scale_at = row_offset(args.scale.stride, row.at);

  // Quotients of typed kernels, unless chance rounds them, become codes at once.
  constexpr bool kAtOnce = kConfig.x != DType::kNone && is_quantised(kConfig.out) && !kConfig.chance;

  // Groups: threads that are neighbours have one between them.
  if (quant == Quantisation::kGroup) {
    const int group = kConfig.group > 0 ? kConfig.group : args.scale.group, sharing = group / kRowPiece;
    const FoundScales<kConfig.quant> scales(args.scale, out);
    if constexpr (GpuRow<kConfig>::kPairs) {
      static_assert(kAtOnce);
      return row.each_pair(make, [&](int n, int count, int more, Piece& p, Piece& q) {
        float most = 0;
        for_elements([&](int i) { most = larger_magnitude(larger_magnitude(most, p.v[i]), q.v[i]); });
        most = largest_of_group<kConfig.group / kRowPiece / 2>(most, 0);
        const bool writes = count > 0 && row.thread % (kConfig.group / kRowPiece / 2) == 0;
        Divisor by = scales(scale_at + n / kConfig.group * args.scale.stride_group, most, writes);
        encode_pair<kConfig.out>(to, n, count, more, p, q, by);
      });
    }
    row.template each<true>(make, [&](long long n, int count, Piece& p) {
      float most = 0;
      for_elements([&](int i) { most = larger_magnitude(most, p.v[i]); });
      most = largest_of_group<kConfig.group / kRowPiece>(most, sharing);
      const bool writes = count > 0 && row.thread % sharing == 0;
      const Divisor by = scales(scale_at + n / group * args.scale.stride_group, most, writes);
      if constexpr (kAtOnce) return encode_quotients<kConfig.out, kConfig.whole>(to, n, count, p, by);
      // Multiples of a scale that is given may saturate.
      constexpr bool kBounded = kConfig.out != DType::kF4E2M1 && kConfig.out != DType::kNone;
      divide<kBounded>(p, by);
      round(out, row.index, n, p);
      encode_piece<kConfig.out, kConfig.whole>(to, out, n, count, p);
    });
    return;
  }

  Divisor by{};
  const auto encode = [&](long long n, int count, Piece& p) {
    if constexpr (kAtOnce && kConfig.quant == Quantisation::kRow)
      return encode_quotients<kConfig.out, kConfig.whole>(to, n, count, p, by);
    if (quant == Quantisation::kRow) divide<true>(p, by);
    if (is_per_tensor(quant)) divide<false>(p, by);
    if (quant != Quantisation::kNone) round(out, row.index, n, p);
    if constexpr (kConfig.out == DType::kF32)
      return store_together<DType::kF32, kConfig.whole, GpuRow<kConfig>::kAllThere>(to, out, n, count, p);
    encode_piece<kConfig.out, kConfig.whole>(to, out, n, count, p);
  };
  const bool together = kFindsTogether<kConfig> && quant == Quantisation::kDynamic && args.step == RowStep::kTogether;
  if (quant == Quantisation::kRow || together) {
    float most = 0;
    row.template each<true>(
        make, [&](long long, int, Piece& p) { for_elements([&](int i) { most = larger_magnitude(most, p.v[i]); }); });
    if (together) {
      by = FoundScales<Quantisation::kTensor>(args.scale, out)(0, largest_of_call<kConfig>(most), writes_of_call());
      return row.template each<false>(make, encode);
    }
    most = row.reduce(most, [](float a, float b) { return at_least(a, b); });
    by = FoundScales<kConfig.quant>(args.scale, out)(scale_at, most, row.there && anew(row.thread) == 0);
    return row.template each<false>(make, encode);
  }
  if (is_per_tensor(quant)) by = divisor(*static_cast<const float*>(args.scale.data));
  row.template each<true>(make, encode);
}

// The steps before the rows, of values by with_values(row, use), which calls use(make); true if this was one, and the rows are
// another launch's.
template <RowGpuConfig kConfig, class WithValues>
__device__ __forceinline__ bool find_tensor_scale(const RowArgs& args, WithValues&& with_values) {
  constexpr bool kMayFind = kConfig.x == DType::kNone || kConfig.quant == Quantisation::kDynamic ||
                            (kConfig.quant == Quantisation::kGroup && kConfig.out == DType::kF4E2M1);
  if constexpr (kMayFind && !has_edge(kConfig)) take_over_from_previous_kernel();
  if (!kMayFind || args.step == RowStep::kRows) return false;
  const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
  constexpr int kBlock = row_block_threads(kConfig.threads);
  float most[1] = {0};
  const auto find = [&](GpuRow<kConfig>& row) {
    with_values(row, [&](auto&& make) {
      row.template each<true>(make, [&](long long, int, Piece& p) {
        for_elements([&](int i) { most[0] = larger_magnitude(most[0], p.v[i]); });
      });
    });
  };
  if (kFindsTogether<kConfig> && args.step == RowStep::kTogether) {
    begin_largest<kConfig>();
    if (kConfig.quant == Quantisation::kDynamic) return false;  // rows find it, and keep their pieces
    for_rows<kConfig>(args, find);
    const float all = largest_of_call<kConfig>(most[0]);
    // Each block for itself, the same.
    if (threadIdx.x == 0) *args.scale.of_tensor = tensor_scale_for(all, out);
    __syncthreads();
    return false;
  }
  if (args.step == RowStep::kFind) {
    for_rows<kConfig, true>(args, find);
  } else {
    if constexpr (has_edge(kConfig)) take_over_from_previous_kernel();
#pragma unroll 1
    for (long long i = threadIdx.x; i < args.part_count; i += kBlock) most[0] = at_least(args.parts[i], most[0]);
  }
  reduce_threads<kBlock>(most, [](float a, float b) { return at_least(a, b); });
  if (threadIdx.x != 0) return true;
  if (args.step == RowStep::kFind) {
    args.parts[blockIdx.x] = most[0];
  } else {
    if (args.scale.of_tensor == nullptr) {
      FoundScales<Quantisation::kTensor>(args.scale, out)(0, most[0], true);
    } else {
      *args.scale.of_tensor = tensor_scale_for(most[0], out);
    }
  }
  return true;
}

}  // namespace tilewright
