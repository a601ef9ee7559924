// SPDX-License-Identifier: MIT
// D of gemm_sm90 where it is of 16 bits, its rows contiguous and at multiples of 16 bytes: late, beside the products of the
// next tile. 64 columns of a warp's 16 rows at a time, or what is left of a tile, pass through the warp's box of shared memory
// and leave in lines of 128 bytes. Ordinary stores: nobody waits for them.
//
// hold() ends a tile: sums become words of D, for which there are registers. write(0) ... write(kWrites - 1) follow.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "tile/sm90/barrier.cuh"
#include "tile/sm90/memory.cuh"

namespace tilewright {

template <GemmSm90Config kConfig>
class GemmSm90Words {
 public:
  using Layout = GemmSm90Layout<kConfig>;
  using Sum = typename Layout::Wgmma::Accumulator;
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  static constexpr bool kFactors = gemm_sm90_has_factors(kConfig);
  static constexpr bool kLate = true;
  static constexpr int kRows64 = Layout::kRows64;
  static constexpr int kBoxColumns = kSm90BoxColumns;
  static constexpr int kBoxes = (gemm_sm90_d_columns(kConfig) + kBoxColumns - 1) / kBoxColumns;  // of 64 rows
  static constexpr int kWrites = kRows64 * kBoxes;
  static constexpr int kBoxSums = kSeparated ? kBoxColumns : kBoxColumns / 2;  // of a thread
  static constexpr int kBoxWords = kBoxColumns / 4;
  // A long body stands once, in a loop at run time, so that a kernel compiles in a second.
  static constexpr bool kShort = kConfig.activation == Activation::kNone || kConfig.activation == Activation::kRelu ||
                                 kConfig.activation == Activation::kSilu;

  // Of a thread's j-th sum of a box among all its sums: a separated gate's box has as many of each half.
  __device__ static constexpr int place(int box, int j) {
    constexpr int kHalf = kBoxSums / 2;
    if (!kSeparated) return box * kBoxSums + j;
    return box * kHalf + j % kHalf + (j < kHalf ? 0 : kConfig.tile_n / 4);
  }

  // A box's columns of D and a thread's sums: fewer in a tile's last.
  __device__ static constexpr int columns_of(int box) {
    return min(kBoxColumns, gemm_sm90_d_columns(kConfig) - box * kBoxColumns);
  }
  __device__ static constexpr int sums_of(int box) { return columns_of(box) * kBoxSums / kBoxColumns; }

  __device__ GemmSm90Words(const GemmSm90Args& args, const Layout& shared, int warpgroup)
      : args_(args), shared_(shared), warpgroup_(warpgroup) {}

  // Ends the tile of `slot`.
  __device__ __forceinline__ void hold(const Sum (&sum)[kRows64][kConfig.tile_n / 2], int slot) {
#pragma unroll(kShort ? kWrites : 1)
    for (int w = 0; w < kWrites; ++w) {
      unsigned words[kBoxWords];
      convert(sum, slot, w, words);
      // Registers have no addresses: each box has its own copy of this.
#pragma unroll
      for (int i = 0; i < kWrites; ++i) {
        if (i != w) continue;
#pragma unroll
        for (int j = 0; j < kBoxWords; ++j) held_[i][j] = words[j];
      }
    }
  }
  // The w-th of kWrites boxes of the tile of `slot`, where it is this part's own.
  __device__ __forceinline__ void write(int slot, int w) const {
    const GemmSm90Tile& tile = shared_.tile(slot);
    if (!owns(tile, w)) return;
    const unsigned box = sm90::shared_address(shared_.staging(warpgroup_)) + warp() * kSm90BoxBytes;
    __syncwarp();  // everyone has read what was there
    put(w, box);
    __syncwarp();
    send(tile, w, box);
  }
  // All of them, after the last tile: in the memory of the stages, which all warpgroups are done with, there is room for all.
  __device__ __forceinline__ void write_all(int slot) const {
    const GemmSm90Tile& tile = shared_.tile(slot);
    const auto box = [&](int w) {
      return sm90::shared_address(shared_.a(0)) + ((warpgroup_ * 4 + warp()) * kWrites + w) * kSm90BoxBytes;
    };
    sm90::named_barrier(kBarrier, 128 * kConfig.warpgroups);
#pragma unroll
    for (int w = 0; w < kWrites; ++w) put(w, box(w));
    __syncwarp();
#pragma unroll
    for (int w = 0; w < kWrites; ++w) {
      if (owns(tile, w)) send(tile, w, box(w));
    }
  }

 private:
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;
  using Columns = typename Epilogue::Columns;

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int warp() { return threadIdx.x / 32 % 4; }
  __device__ __forceinline__ static bool owns(const GemmSm90Tile& tile, int w) {
    return tile.parts == 1 || w % kBoxes % tile.parts == tile.part;
  }

  __device__ __forceinline__ Columns columns(int slot, int pair) const {
    if constexpr (!kFactors) return {0, {1.0f, 1.0f}, {-0.0f, -0.0f}};
    const float4 f = shared_.column_factors(slot)[pair];
    return {0, {f.x, f.y}, {f.z, f.w}};
  }

  // Sums of a box as words of D, in the order in which store() wants them: 16 columns at a time, matrices of the warp's rows
  // 0-7 and 8-15, of columns 0-7, then 8-15.
  __device__ __forceinline__ void convert(const Sum (&sums)[kRows64][kConfig.tile_n / 2], int slot, int w,
                                          unsigned (&words)[kBoxWords]) const {
    Sum x[kBoxSums] = {};
#pragma unroll
    for (int i = 0; i < kWrites; ++i) {
      if (i != w) continue;
#pragma unroll
      for (int j = 0; j < kBoxSums; ++j) {
        if (j < sums_of(i % kBoxes)) x[j] = sums[i / kBoxes][place(i % kBoxes, j)];
      }
    }
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, 0);
    typename Epilogue::Row upper{0, 1.0f}, lower{0, 1.0f};
    const int row = (warpgroup_ * kRows64 + w / kBoxes) * 64 + 16 * warp() + lane() / 4;
    if constexpr (kFactors) {
      upper.factor = shared_.row_factors(slot)[row];
      lower.factor = shared_.row_factors(slot)[row + 8];
    }
#pragma unroll
    for (int i = 0; i < kBoxWords; i += 2) {
      if (4 * i >= columns_of(w % kBoxes)) continue;
      const int at = 2 * i;  // at, at + 1: the upper row; then the lower
      const int pair = (w % kBoxes * kBoxColumns + 4 * i) / 2 + lane() % 4;
      const Columns first = columns(slot, pair);
      GemmPair high, low;
      if constexpr (kSeparated) {
        const Columns up = columns(slot, kConfig.tile_n / 4 + pair);
        const Sum* y = &x[kBoxSums / 2];
        high = epilogue.gated(upper, first, up, x[at], x[at + 1], y[at], y[at + 1]);
        low = epilogue.gated(lower, first, up, x[at + 2], x[at + 3], y[at + 2], y[at + 3]);
      } else {
        high = epilogue.linear(upper, first, x[at], x[at + 1]);
        low = epilogue.linear(lower, first, x[at + 2], x[at + 3]);
      }
      words[i] = Epilogue::pack(high.first, high.second);
      words[i + 1] = Epilogue::pack(low.first, low.second);
    }
  }

  // Under the swizzle a box's column is an XOR of its address.
  __device__ __forceinline__ void put(int w, unsigned box) const {
    const unsigned matrix = box + sm90::swizzle_128(lane() % 16 * kSm90RowBytes + lane() / 16 * 16);
    const unsigned(&words)[kBoxWords] = held_[w];
#pragma unroll
    for (int i = 0; i < kBoxWords; i += 4) {
      if (4 * i >= columns_of(w % kBoxes)) continue;
      sm90::store_matrix_x4(matrix ^ i * 8, words[i], words[i + 1], words[i + 2], words[i + 3]);
    }
  }
  // From the box to D: eight columns a thread, kRowsAtOnce rows at a time.
  __device__ __forceinline__ void send(const GemmSm90Tile& tile, int w, unsigned box) const {
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, tile.batch);
    const int column = tile.n + w % kBoxes * kBoxColumns + lane() % kLanes * 8;
    const int row = tile.m + (warpgroup_ * kRows64 + w / kBoxes) * 64 + 16 * warp() + lane() / kLanes;
    const unsigned line = box + sm90::swizzle_128(lane() / kLanes * kSm90RowBytes + lane() % kLanes * 16);
    uint4 lines[kSm90BoxRows / kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kSm90BoxRows; i += kRowsAtOnce)
      lines[i / kRowsAtOnce] = sm90::load_words((line ^ (i & 4) * 16) + i * kSm90RowBytes);
    char* to = epilogue.address(row, column);
    const int64 step = kRowsAtOnce * epilogue.row_bytes();
    // No branch: beside products it would make the compiler wait for them.
    const bool inside = lane() % kLanes * 8 < columns_of(w % kBoxes) && column < epilogue.out_n();
    const int rows = inside ? static_cast<int>(epilogue.rows()) - row : 0;
#pragma unroll
    for (int i = 0; i < kSm90BoxRows; i += kRowsAtOnce, to += step) {
      if (i < rows) *reinterpret_cast<uint4*>(to) = lines[i / kRowsAtOnce];
    }
  }

  static constexpr int kLanes = kBoxColumns / 8, kRowsAtOnce = 32 / kLanes;  // of a row of a box
  static constexpr int kBarrier = 8;                                         // of the warpgroups that multiply
  const GemmSm90Args& args_;
  const Layout shared_;
  const int warpgroup_;
  unsigned held_[kWrites][kBoxWords];
};

// Scales and bias of a tile. `thread` of those that bring them.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_bring_factors(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                                        int slot, int m, int n, int batch, int thread) {
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;
  constexpr int kThreads = kSm90BringingThreads;
  const Epilogue epilogue(args.gemm.epilogue, args.gemm.m, args.gemm.n, batch);
#pragma unroll 1
  for (int pair = thread; pair < kConfig.tile_n / 2; pair += kThreads) {
    int64 column = n + 2 * pair;
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      if (pair >= kConfig.tile_n / 4) column += epilogue.out_n() - kConfig.tile_n / 2;
    }
    const auto columns = epilogue.columns(column);
    shared.column_factors(slot)[pair] = {columns.scale.first, columns.scale.second, columns.bias.first,
                                         columns.bias.second};
  }
#pragma unroll
  for (int row = thread; row < (kConfig.tile_m + kThreads - 1) / kThreads * kThreads; row += kThreads) {
    const float factor = epilogue.row(m + row).factor;
    if (row < kConfig.tile_m) shared.row_factors(slot)[row] = factor;
  }
}

}  // namespace tilewright
