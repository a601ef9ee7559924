// SPDX-License-Identifier: MIT
// D of gemm_sm90_skinny: a warp holds 16 columns of D by all tokens, transposed. Sums of parts of a tile are added, then
// pass through a box of the warp's own in shared memory and leave eight columns a thread. No warp waits for another.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "gemm/sm90/gemm_sm90_skinny_work.cuh"
#include "tile/sm90/barrier.cuh"

namespace tilewright {

template <GemmSm90SkinnyConfig kConfig>
class GemmSm90SkinnyOutput {
 public:
  static constexpr bool kGated = kConfig.gate != GateMode::kNone;
  static constexpr int kDColumns = kGated ? 8 : 16;  // of a warp
  static constexpr int kGroups = kConfig.tokens / 8;
  static constexpr int kBoxTokens = gemm_sm90_skinny_box_tokens(kConfig);
  static constexpr int kBoxGroups = kBoxTokens / 8;
  static constexpr int kWarpgroups = gemm_sm90_skinny_warpgroups(kConfig), kThreads = kWarpgroups * 128;
  using Epilogue = GemmEpilogue<gemm_sm90_skinny_epilogue(kConfig)>;

  __device__ GemmSm90SkinnyOutput(const GemmSm90SkinnyArgs& args, float* box, const float* factors, int block)
      : args_(args), box_(box), factors_(factors), block_(block) {}

  // What varies by column is the same for all tokens of a thread. Asked for before the products, so that it has come.
  struct Columns {
    typename Epilogue::Columns pair[kGated ? 8 : 4];
  };
  // Part `part` of the warpgroup's rows; `d0`: the block's first column of D.
  __device__ __forceinline__ Columns columns(int part, int batch, int d0) const {
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, batch);
    Columns columns;
#pragma unroll
    for (int i = 0; i < (kGated ? 8 : 4); ++i) {
      columns.pair[i] = epilogue.columns(b_column(epilogue, first_column(part, d0), i));
    }
    return columns;
  }

  template <class Sum>
  __device__ __forceinline__ void write(const Sum (&products)[kConfig.tokens / 2], const Columns& columns, int part,
                                        const SkinnyShare& s, int batch, int d0) {
    Sum sum[kConfig.tokens / 2];
#pragma unroll
    for (int i = 0; i < kConfig.tokens / 2; ++i) sum[i] = products[i];
    if (s.count > 1) {
      send(sum, part, s);
      add_others(sum, part, s);
    }
    if (s.first_group >= s.last_group) return;

    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, batch);
    const int lane = threadIdx.x % 32, n = first_column(part, d0), first_token = kGated ? lane : lane / 2;
#pragma unroll
    for (int b = 0; b < kGroups / kBoxGroups; ++b) {
      const int first = max(s.first_group, b * kBoxGroups) * 8;
      const int last = min(min(s.last_group, (b + 1) * kBoxGroups) * 8, static_cast<int>(args_.gemm.m));
      if (first >= last) continue;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kBoxTokens / 2; ++i) {
        const int token = i / 4 * 8 + lane % 4 * 2 + i % 2;
        box_[token * kSkinnyPitch + lane / 4 + i % 4 / 2 * 8] = gemm_sum(sum[b * (kBoxTokens / 2) + i]);
      }
      __syncwarp();
      const int token = b * kBoxTokens + first_token;
      if (token >= first && token < last) write_eight(epilogue, columns, token, first_token, n);
    }
  }

 private:
  // Of D, of this thread.
  __device__ __forceinline__ static int first_column(int part, int d0) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return d0 + (part * kWarpgroups * 4 + warp) * kDColumns + (kGated ? 0 : static_cast<int>(threadIdx.x) % 2 * 8);
  }
  // The column of B that pair i of a thread's columns begins with.
  __device__ __forceinline__ static int64 b_column(const Epilogue& epilogue, int n, int i) {
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      return i < 4 ? n + 2 * i : epilogue.out_n() + n + 2 * (i - 4);
    } else if constexpr (kConfig.gate == GateMode::kInterleaved) {
      return 2 * static_cast<int64>(n + i);
    } else {
      return n + 2 * i;
    }
  }

  // [group][thread] of a part of the rows of a part of K; the slots of a cluster's blocks lie side by side.
  __device__ __forceinline__ uint4* slot(int index, int part) const {
    const int64 bytes = gemm_sm90_skinny_slot_bytes(kConfig);
    char* const base = static_cast<char*>(args_.gemm.workspace);
    return reinterpret_cast<uint4*>(base + (static_cast<int64>(index) * kConfig.cluster + block_) * bytes) +
           part * kGroups * kThreads + threadIdx.x;
  }
  template <class Sum>
  __device__ __forceinline__ void send(const Sum (&sum)[kConfig.tokens / 2], int part, const SkinnyShare& s) const {
    uint4* const to = slot(s.first + s.index, part);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const bool own = g >= s.first_group && g < s.last_group;
      if (!own && g * 8 < args_.gemm.m) skinny_send(to + g * kThreads, &sum[4 * g]);
    }
  }
  // Up to 16 groups asked for at a time, added in the order of the parts.
  template <class Sum>
  __device__ __forceinline__ void add_others(Sum (&sum)[kConfig.tokens / 2], int part, const SkinnyShare& s) const {
    constexpr int kAtOnce = kGroups < 8 ? kGroups : 8, kParts = kGroups < 8 ? 2 : 1;
    if (s.first_group >= s.last_group) return;
#pragma unroll 1
    for (int base = 0; base < s.count - 1; base += kParts) {
#pragma unroll
      for (int g0 = 0; g0 < kGroups; g0 += kAtOnce) {
        if (g0 >= s.last_group || g0 + kAtOnce <= s.first_group) continue;
        uint4 v[kParts][kAtOnce];
        const uint4* from[kParts];
#pragma unroll
        for (int p = 0; p < kParts; ++p) from[p] = slot(s.first + base + p + (base + p >= s.index), part);
        const auto wanted = [&](int p, int g) {
          return base + p < s.count - 1 && g0 + g >= s.first_group && g0 + g < s.last_group;
        };
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
#pragma unroll
          for (int g = 0; g < kAtOnce; ++g) {
            if (wanted(p, g)) v[p][g] = sm90::load_relaxed(from[p] + (g0 + g) * kThreads);
          }
        }
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
#pragma unroll
          for (int g = 0; g < kAtOnce; ++g) {
            if (!wanted(p, g)) continue;
            const uint4* const place = from[p] + (g0 + g) * kThreads;
            while (!skinny_is_there(v[p][g])) v[p][g] = sm90::load_relaxed(place);
            *const_cast<uint4*>(place) = {0, 0, 0, 0};
            skinny_add(sum[4 * (g0 + g)], v[p][g].x);
            skinny_add(sum[4 * (g0 + g) + 1], v[p][g].y);
            skinny_add(sum[4 * (g0 + g) + 2], v[p][g].z);
            skinny_add(sum[4 * (g0 + g) + 3], v[p][g].w);
          }
        }
      }
    }
  }

  // D[token, n .. n + 7].
  __device__ __forceinline__ void write_eight(const Epilogue& epilogue, const Columns& columns, int token,
                                              int box_token, int n) const {
    constexpr int kSums = kGated ? 16 : 8;
    float sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const float4 v =
          *reinterpret_cast<const float4*>(box_ + box_token * kSkinnyPitch + (kGated ? 0 : threadIdx.x % 2 * 8) + i);
      sums[i] = v.x, sums[i + 1] = v.y, sums[i + 2] = v.z, sums[i + 3] = v.w;
    }
    typename Epilogue::Row row{token, 1.0f};
    if constexpr (kConfig.epilogue == EpilogueKind::kLinear) row.factor = factors_[token];
    float values[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      GemmPair y;
      if constexpr (kConfig.gate == GateMode::kSeparated) {
        y = epilogue.gated(row, columns.pair[i], columns.pair[4 + i], sums[2 * i], sums[2 * i + 1], sums[8 + 2 * i],
                           sums[9 + 2 * i]);
      } else if constexpr (kConfig.gate == GateMode::kInterleaved) {
        y = {epilogue.gated(row, columns.pair[2 * i], sums[4 * i], sums[4 * i + 1]),
             epilogue.gated(row, columns.pair[2 * i + 1], sums[4 * i + 2], sums[4 * i + 3])};
      } else {
        y = epilogue.linear(row, columns.pair[i], sums[2 * i], sums[2 * i + 1]);
      }
      values[2 * i] = y.first, values[2 * i + 1] = y.second;
    }
    epilogue.store(token, n, values);
  }

  const GemmSm90SkinnyArgs& args_;
  float* const box_;
  const float* const factors_;
  const int block_;
};

}  // namespace tilewright
