// SPDX-License-Identifier: MIT
// D of gemm_sm90 of any type and any strides, at the end of a tile: a warp's 16 rows of sums go to shared memory, 32 columns
// at a time, and come back eight columns a thread.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "tile/sm90/memory.cuh"

namespace tilewright {

template <GemmSm90Config kConfig>
class GemmSm90Elements {
 public:
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  static constexpr bool kInterleaved = kConfig.gate == GateMode::kInterleaved;
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;
  using Sum = typename GemmSm90Layout<kConfig>::Wgmma::Accumulator;
  // A box: columns of D, and the sums of a thread that they come from.
  static constexpr int kDColumns = kConfig.gate == GateMode::kNone ? 32 : 16;
  static constexpr int kBoxSums = (kConfig.gate == GateMode::kNone ? kDColumns : 2 * kDColumns) / 2;
  static constexpr int kBoxes = kConfig.tile_n / 2 / kBoxSums;

  // Of a thread's j-th sum of a box among all its sums: a separated gate's box has as many of each half.
  __device__ static constexpr int place(int box, int j) {
    constexpr int kHalf = kBoxSums / 2;
    if (!kSeparated) return box * kBoxSums + j;
    return box * kHalf + j % kHalf + (j < kHalf ? 0 : kConfig.tile_n / 4);
  }

  __device__ static constexpr int sums_of(int) { return kBoxSums; }

  static constexpr int kRows64 = GemmSm90Layout<kConfig>::kRows64;
  static constexpr int kWrites = 1;
  static constexpr bool kLate = false, kTurned = kConfig.promote != Promotion::kNone;

  __device__ GemmSm90Elements(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared, int warpgroup)
      : args_(args), shared_(shared), warpgroup_(warpgroup), box_(shared.staging(warpgroup) + warp() * kSm90BoxBytes) {}

  // Ends the tile of `slot`. A separated gate: the second half of `sum` is up. Of the boxes those that are this part's own.
  __device__ __forceinline__ void hold(const Sum (&sum)[kRows64][kConfig.tile_n / 2], int slot) const {
    const GemmSm90Tile& tile = shared_.tile(slot);
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, tile.batch);
    const int m = tile.m + warpgroup_ * kRows64 * 64 + 16 * warp();
    // A long body stands once, in a loop at run time, so that a kernel compiles in a second.
#pragma unroll 1
    for (int w = 0; w < kRows64 * kBoxes; ++w) {
      const int b = w % kBoxes;
      if (tile.parts > 1 && b % tile.parts != tile.part) continue;
      // Registers have no addresses: each box has its own copy of this.
      Sum x[kBoxSums];
#pragma unroll
      for (int i = 0; i < kRows64 * kBoxes; ++i) {
        if (i != w) continue;
#pragma unroll
        for (int j = 0; j < kBoxSums; ++j) x[j] = sum[i / kBoxes][place(i % kBoxes, j)];
      }
      write_box(epilogue, x, m + w / kBoxes * 64, tile.n + b * kDColumns);
    }
  }
  // Nothing is left to be written beside the next tile's products.
  __device__ __forceinline__ void write(int, int) const {}
  __device__ __forceinline__ void write_first(int) const {}
  __device__ __forceinline__ void write_all(int) const {}

 private:
  using Columns = typename Epilogue::Columns;

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int warp() { return threadIdx.x / 32 % 4; }

  // Each thread reads scale and bias of one pair of columns; the others ask it.
  __device__ __forceinline__ static Columns columns_of(const Columns& own, int pair, int64 n) {
    if constexpr (kConfig.epilogue != EpilogueKind::kLinear) return {n, {1.0f, 1.0f}, {-0.0f, -0.0f}};
    const auto ask = [&](float x) { return __shfl_sync(0xFFFFFFFF, x, pair); };
    return {n, {ask(own.scale.first), ask(own.scale.second)}, {ask(own.bias.first), ask(own.bias.second)}};
  }

  // A row of the box holds 32 columns of sums: with a separated gate 16 of each half side by side.
  __device__ __forceinline__ void write_box(const Epilogue& epilogue, const Sum (&x)[kBoxSums], int m, int n) const {
    __syncwarp();  // everyone has read what was there
#pragma unroll
    for (int i = 0; i < kBoxSums; i += 2) {
      const int row = lane() / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane() % 4 * 2;
      *reinterpret_cast<float2*>(box_ + sm90::swizzle_128(row * kSm90RowBytes + column * 4)) = {gemm_sum(x[i]),
                                                                                                gemm_sum(x[i + 1])};
    }
    const int pair = lane() % 16, first = kInterleaved ? 2 * n : n;
    const Columns own =
        epilogue.columns(kSeparated && pair >= 8 ? epilogue.out_n() + first + 2 * (pair - 8) : first + 2 * pair);
    __syncwarp();
#pragma unroll 1
    for (int i = lane(); i < kSm90BoxRows * kDColumns / 8; i += 32) {
      const int row = i / (kDColumns / 8), column = i % (kDColumns / 8) * 8;
      write_eight(epilogue, own, row, m + row, column, n + column);
    }
  }
  // D[m, n .. n + 7] from row `row` of the box, D's columns from `column`.
  __device__ __forceinline__ void write_eight(const Epilogue& epilogue, const Columns& own, int row, int m, int column,
                                              int n) const {
    const auto sums = [&](int at) {
      return *reinterpret_cast<const float2*>(box_ + sm90::swizzle_128(row * kSm90RowBytes + at * 4));
    };
    const auto r = epilogue.row(m);
    float values[8];
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const int at = column + j;
      GemmPair y;
      if constexpr (kSeparated) {
        const float2 gate = sums(at), up = sums(16 + at);
        y = epilogue.gated(r, columns_of(own, at / 2, n + j), columns_of(own, 8 + at / 2, epilogue.out_n() + n + j),
                           gate.x, gate.y, up.x, up.y);
      } else if constexpr (kInterleaved) {
        const float2 low = sums(2 * at), high = sums(2 * at + 2);
        const int64 first = 2 * static_cast<int64>(n + j);
        y = {epilogue.gated(r, columns_of(own, at, first), low.x, low.y),
             epilogue.gated(r, columns_of(own, at + 1, first + 2), high.x, high.y)};
      } else {
        const float2 x = sums(at);
        y = epilogue.linear(r, columns_of(own, at / 2, n + j), x.x, x.y);
      }
      values[j] = y.first, values[j + 1] = y.second;
    }
    epilogue.store(m, n, values);
  }

  const GemmSm90Args& args_;
  const GemmSm90Layout<kConfig> shared_;
  const int warpgroup_;
  unsigned char* const box_;
};

}  // namespace tilewright
