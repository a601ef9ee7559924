// SPDX-License-Identifier: MIT
// grouped_gemm_generic_gpu: the kernel that is typed at run time, for every GPU; every valid problem runs. A block walks the
// groups' numbers, which stand in device memory, and multiplies every grid's worth of tiles as gemm_generic_gpu does.
#pragma once

#include "gemm/gpu/gemm_generic_gpu.cuh"
#include "grouped_gemm/gpu/grouped_generic_shape.hpp"

namespace tilewright {

// One tile: rows [m0, m_end) of group `batch`.
struct GroupedPlace {
  int64 batch, m0, m_end, n0;
};

// The rows of A and D of a tile, where an index names them.
__device__ __forceinline__ void find_rows(const GroupArgs& groups, const GroupedPlace& p, GroupedGenericState& state,
                                          int thread) {
  if (thread >= kGenericTile) return;
  const int64 row = p.m0 + thread;
  bool clamped = false;
  int64 a = -1, d = -1;
  if (row < p.m_end) {
    a = indexed_row(groups.gather, groups.stride_gather, row, groups.a_rows, clamped);
    d = indexed_row(groups.scatter, groups.stride_scatter, row, groups.d_rows, clamped);
  }
  state.a_rows[thread] = d < 0 ? -1 : a;
  state.d_rows[thread] = a < 0 ? -1 : d;
}

// A at the rows of find_rows(), times its scales. The threads are those that generic_load() has for the same elements.
__device__ __forceinline__ void load_found_rows(const GemmArgs& args, const GemmBlockScale& scale, int64 k0,
                                                GroupedGenericState& state, int thread) {
#pragma unroll 1
  for (int i = thread; i < kGenericTile * kGenericTile; i += kGenericThreads) {
    const int64 row = state.a_rows[i / kGenericTile], k = k0 + i % kGenericTile;
    if (row < 0 || k >= args.k) continue;
    float a = generic_element(args.a, row * args.stride_a_m + k * args.stride_a_k, args.a_dtype);
    if (scale.data != nullptr) {
      const int64 index = row / scale.outer * scale.stride_outer + k / scale.k * scale.stride_k;
      a = __fmul_rn(a, generic_element(scale.data, index, scale.dtype));
    }
    state.tile.a[i / kGenericTile][i % kGenericTile] = a;
  }
}

template <GateMode kGate>
__device__ __forceinline__ void store_group(const GroupedGemmArgs& args, const GroupedPlace& p, bool indexed,
                                            const GroupedGenericState& state, int thread) {
  constexpr GemmEpilogueConfig kConfig{EpilogueKind::kFull, Activation::kNone, kGate, DType::kNone};
  const GemmArgs& gemm = args.scaled.gemm;
  const GemmEpilogue<kConfig> epilogue(gemm.epilogue, indexed ? args.groups.d_rows : p.m_end, gemm.n, p.batch);
  const int rows = p.m_end - p.m0 < kGenericTile ? static_cast<int>(p.m_end - p.m0) : kGenericTile;
  // Rows that an index names are stored one by one.
  const int runs = indexed ? rows : 1;
#pragma unroll 1
  for (int r = 0; r < runs; ++r) {
    const int64 m0 = indexed ? state.d_rows[r] : p.m0;
    if (m0 < 0) continue;
    store_sums<kConfig, kGenericTile, kGenericThreads>(epilogue, &state.tile.sums[r][0], kGenericPitch, m0, p.n0,
                                                       gemm.n, indexed ? 1 : rows, thread);
  }
}

__device__ __forceinline__ void grouped_tile(const GroupedGemmArgs& args, const GroupedPlace& p,
                                             GroupedGenericState& state, int thread) {
  const GemmScaledArgs& scaled = state.scaled;
  const bool indexed = args.groups.gather != nullptr || args.groups.scatter != nullptr;
  const bool integer = args.scaled.gemm.a_dtype == DType::kI8 && args.scaled.gemm.b_dtype == DType::kI8 &&
                       args.scaled.scale.a.data == nullptr && args.scaled.scale.b.data == nullptr;
  if (indexed) {
    find_rows(args.groups, p, state, thread);
    __syncthreads();
  }
  const int row = thread / 8, column = thread % 8 * 4;
  float sums[4] = {};
  int64 totals[4] = {};
#pragma unroll 1
  for (int64 k0 = 0; k0 < scaled.gemm.k; k0 += kGenericTile) {
    __syncthreads();
    generic_load(scaled, {p.batch, p.m0, p.n0}, k0, state.tile, thread);
    if (indexed) load_found_rows(scaled.gemm, args.scaled.scale.a, k0, state, thread);
    __syncthreads();
    const int depth = scaled.gemm.k - k0 < kGenericTile ? static_cast<int>(scaled.gemm.k - k0) : kGenericTile;
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = fmaf(state.tile.a[row][k], state.tile.b[k][column + i], sums[i]);
    }
    if (!integer) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) totals[i] += static_cast<int>(sums[i]), sums[i] = 0;
  }
  float scale = 1;
  if (indexed && args.groups.row_scale.data != nullptr && state.a_rows[row] >= 0) {
    scale = static_cast<const float*>(args.groups.row_scale.data)[state.a_rows[row] * args.groups.row_scale.stride_m];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    state.tile.sums[row][column + i] = __fmul_rn(integer ? __ll2float_rn(totals[i]) : sums[i], scale);
  }
  __syncthreads();
  switch (args.scaled.gemm.epilogue.gate) {
    case GateMode::kNone: store_group<GateMode::kNone>(args, p, indexed, state, thread); break;
    case GateMode::kSeparated: store_group<GateMode::kSeparated>(args, p, indexed, state, thread); break;
    case GateMode::kInterleaved: store_group<GateMode::kInterleaved>(args, p, indexed, state, thread); break;
  }
}

// What of the call's arguments is this group's. Rows past m are not read: those that an index names, generic_load() leaves.
__device__ __forceinline__ void choose_group(const GroupedGemmArgs& args, const GroupRange& range, GemmArgs& group) {
  const GemmArgs& all = args.scaled.gemm;
  const bool indexed = args.groups.gather != nullptr || args.groups.scatter != nullptr;
  if (args.groups.mode != GroupMode::kRaggedK) {
    group.m = indexed ? 0 : range.begin + range.count;
    return;
  }
  group.k = range.count;
  group.a = static_cast<const char*>(all.a) + range.begin * all.stride_a_k * (dtype_bits(all.a_dtype) / 8);
  group.b = static_cast<const char*>(all.b) + range.begin * all.stride_b_k * (dtype_bits(all.b_dtype) / 8);
}

// The first block looks at every index, and writes the status word.
__device__ __forceinline__ void report_groups(const GroupedGemmArgs& args, bool clamped, GroupedGenericState& state,
                                              int thread) {
  const GroupArgs& a = args.groups;
  if (a.status == nullptr) return;
  for (int64 row = thread; row < args.scaled.gemm.m && a.mode == GroupMode::kContiguous; row += kGenericThreads) {
    indexed_row(a.gather, a.stride_gather, row, a.a_rows, clamped);
    indexed_row(a.scatter, a.stride_scatter, row, a.d_rows, clamped);
  }
  state.clamped[thread] = clamped ? 1 : 0;
  __syncthreads();
  if (thread != 0) return;
  for (int i = 0; i < kGenericThreads; ++i) clamped = clamped || state.clamped[i] != 0;
  if (clamped) *a.status = kGroupsClamped;
}

// block_m of the arguments is the grid's size.
__device__ __forceinline__ void grouped_gemm_generic_gpu(const GroupedGemmArgs& args) {
  auto& state = *reinterpret_cast<GroupedGenericState*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const GemmArgs& gemm = args.scaled.gemm;
  const bool ragged = args.groups.mode == GroupMode::kRaggedK;
  for (unsigned i = threadIdx.x; i < sizeof(GemmScaledArgs) / 4; i += kGenericThreads) {
    reinterpret_cast<unsigned*>(&state.scaled)[i] = reinterpret_cast<const unsigned*>(&args.scaled)[i];
  }

  GroupWalk walk = group_walk(args);
  int64 tile = blockIdx.x, first = 0;  // the next one of this block; the group's first one
#pragma unroll 1
  for (int64 g = 0; g < gemm.batch; ++g) {
    const int at = static_cast<int>(g % kGenericThreads);
    if (at == 0) {
      __syncthreads();
      if (g + thread < gemm.batch) state.numbers[thread] = group_numbers(args.groups, g + thread);
      __syncthreads();
    }
    const GroupRange range = walk.next(args.groups, state.numbers[at]);
    const int64 rows = ragged ? gemm.m : range.count, begin = ragged ? 0 : range.begin;
    const GenericTiles tiles = gemm_generic_tiles(rows, gemm.n, gemm.epilogue.gate);
    if (tile < first + tiles.m * tiles.n) {
      __syncthreads();
      if (thread == 0) choose_group(args, range, state.scaled.gemm);
      __syncthreads();
    }
#pragma unroll 1
    for (; tile < first + tiles.m * tiles.n; tile += gemm.block_m) {
      const int64 unit = tile - first;
      grouped_tile(args, {g, begin + unit / tiles.n * kGenericTile, begin + rows, unit % tiles.n * tiles.out}, state,
                   thread);
      __syncthreads();
    }
    first += tiles.m * tiles.n;
  }
  if (blockIdx.x == 0) report_groups(args, walk.clamped, state, thread);
}

}  // namespace tilewright
