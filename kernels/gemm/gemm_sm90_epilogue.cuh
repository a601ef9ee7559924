// SPDX-License-Identifier: MIT
// D of gemm_sm90: a warpgroup's 64 rows of sums become elements of D. Two ways, both through shared memory, in boxes of 64
// rows of 128 bytes, two in turn:
//   boxes     16-bit D that the copy engine can write: registers become D's elements, 64 columns a box;
//   elements  any other: sums go to shared memory, 32 columns a box, and come back eight columns a thread.
// A loop over boxes is a loop at run time, so that its long body stands once: a kernel compiles in a second.
#pragma once

#include "gemm/gemm_epilogue_gpu.cuh"
#include "gemm/gemm_sm90_args.hpp"
#include "tile/sm90/barrier.cuh"
#include "tile/sm90/tma.cuh"

namespace tilewright {

template <GemmSm90Config kConfig>
class GemmSm90Output {
 public:
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;

  // `staging`: kSm90StagingBytes of shared memory, this warpgroup's own.
  __device__ GemmSm90Output(const GemmSm90Args& args, unsigned char* staging, int warpgroup)
      : args_(args), staging_(staging), barrier_(1 + warpgroup) {}

  // Rows m to m + 63 and D's columns n and up. A separated gate: the second half of `sum` is up.
  template <class Sum>
  __device__ __forceinline__ void write(const Sum (&sum)[kConfig.tile_n / 2], int m, int n, int batch) {
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, batch);
    if constexpr (kConfig.d_box) {
      write_boxes(epilogue, sum, m, n, batch);
    } else {
      write_elements(epilogue, sum, m, n);
    }
  }
  // Shared memory must outlive the copies that read it.
  __device__ __forceinline__ void finish() {
    if (kConfig.d_box && thread() == 0) sm90::wait_stores_read<0>();
  }

 private:
  using Columns = typename Epilogue::Columns;
  // Scale and bias of a box's pairs of columns, at most 64 of them.
  struct Pair {
    GemmPair scale, bias;
  };

  __device__ __forceinline__ static int thread() { return threadIdx.x % 128; }
  __device__ __forceinline__ void meet() { sm90::named_barrier(barrier_, 128); }
  __device__ __forceinline__ unsigned char* box() const { return staging_ + box_ * kSm90BoxBytes; }
  __device__ __forceinline__ Pair* pairs() const {
    return reinterpret_cast<Pair*>(staging_ + kSm90Boxes * kSm90BoxBytes);
  }

  // One thread a pair reads them; pairs of the second half of `count` are up's.
  __device__ __forceinline__ void load_pairs(const Epilogue& epilogue, Pair* to, int count, int n) const {
    if constexpr (kConfig.epilogue == EpilogueKind::kLinear) {
      const int i = thread();
      if (i >= count) return;
      const int half = kSeparated ? count / 2 : count;
      const Columns columns = epilogue.columns(i < half ? n + 2 * i : epilogue.out_n() + n + 2 * (i - half));
      to[i] = {columns.scale, columns.bias};
    }
  }
  __device__ __forceinline__ static Columns columns_of(const Pair* pairs, int index, int64 n) {
    if constexpr (kConfig.epilogue == EpilogueKind::kLinear) return {n, pairs[index].scale, pairs[index].bias};
    return {n, {1.0f, 1.0f}, {-0.0f, -0.0f}};
  }

  template <class Sum>
  __device__ __forceinline__ void write_boxes(const Epilogue& epilogue, const Sum (&sum)[kConfig.tile_n / 2], int m,
                                              int n, int batch) {
    constexpr int kBoxColumns = kSm90RowBytes / 2, kBoxes = gemm_sm90_d_columns(kConfig) / kBoxColumns;
    const int lane = thread() % 32, warp = thread() / 32;
    const int row = warp * 16 + lane / 4;  // of this thread's sums; the other one is 8 below
    const auto upper = epilogue.row(m + row), lower = epilogue.row(m + row + 8);
#pragma unroll 1
    for (int b = 0; b < kBoxes; ++b) {
      // Registers of this box: they have no addresses, so each box has its own copy.
      Sum x[kBoxColumns / 2], up[kSeparated ? kBoxColumns / 2 : 1];
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        if (i != b) continue;
#pragma unroll
        for (int j = 0; j < kBoxColumns / 2; ++j) {
          x[j] = sum[i * kBoxColumns / 2 + j];
          if constexpr (kSeparated) up[j] = sum[kConfig.tile_n / 4 + i * kBoxColumns / 2 + j];
        }
      }
      const int first = n + b * kBoxColumns;
      load_pairs(epilogue, pairs(), kSeparated ? kBoxColumns : kBoxColumns / 2, first);
      if (thread() == 0) sm90::wait_stores_read<kSm90Boxes - 1>();
      meet();
      // 16 columns at a time: matrices of rows 0-7 and 8-15 of the warp's 16, of columns 0-7, then 8-15.
#pragma unroll
      for (int j = 0; j < kBoxColumns; j += 16) {
        unsigned words[4];
#pragma unroll
        for (int h = 0; h < 4; ++h) {
          const int at = j / 2 + h / 2 * 4 + h % 2 * 2, pair = at / 4 * 4 + lane % 4;
          const Columns columns = columns_of(pairs(), pair, first + 2 * pair);
          GemmPair y;
          if constexpr (kSeparated) {
            const Columns other = columns_of(pairs(), kBoxColumns / 2 + pair, epilogue.out_n() + first + 2 * pair);
            y = epilogue.gated(h % 2 ? lower : upper, columns, other, x[at], x[at + 1], up[at], up[at + 1]);
          } else {
            y = epilogue.linear(h % 2 ? lower : upper, columns, x[at], x[at + 1]);
          }
          words[h] = Epilogue::pack(y.first, y.second);
        }
        const unsigned offset = (warp * 16 + lane % 16) * kSm90RowBytes + (j + lane / 16 * 8) * 2;
        sm90::store_matrix_x4(sm90::shared_address(box()) + sm90::swizzle_128(offset), words[0], words[1], words[2],
                              words[3]);
      }
      sm90::fence_shared_for_async();
      meet();
      if (thread() == 0) {
        if (first < epilogue.out_n() && m < args_.gemm.m) sm90::store_box(args_.d, box(), first, m, batch);
        sm90::commit_stores();
      }
      box_ ^= 1;
    }
  }

  // A box holds 32 columns of sums: with a separated gate 16 of each half, which then lie side by side.
  template <class Sum>
  __device__ __forceinline__ void write_elements(const Epilogue& epilogue, const Sum (&sum)[kConfig.tile_n / 2], int m,
                                                 int n) {
    constexpr int kBoxColumns = 32, kBoxes = kConfig.tile_n / kBoxColumns;
    constexpr int kDColumns = kConfig.gate == GateMode::kNone ? kBoxColumns : kBoxColumns / 2;
    const int lane = thread() % 32, warp = thread() / 32;
#pragma unroll 1
    for (int b = 0; b < kBoxes; ++b) {
      Pair* const own_pairs = pairs() + box_ * kBoxColumns / 2;
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        if (i != b) continue;
#pragma unroll
        for (int j = 0; j < kBoxColumns; j += 8) {
          const bool is_up = kSeparated && j >= kBoxColumns / 2;
          const int first = is_up        ? kConfig.tile_n / 2 + i * kBoxColumns / 2 + j - kBoxColumns / 2
                            : kSeparated ? i * kBoxColumns / 2 + j
                                         : i * kBoxColumns + j;
#pragma unroll
          for (int below = 0; below < 2; ++below) {
            const unsigned offset = (warp * 16 + lane / 4 + below * 8) * kSm90RowBytes + (j + lane % 4 * 2) * 4;
            const Sum* x = &sum[first / 2 + below * 2];
            *reinterpret_cast<float2*>(box() + sm90::swizzle_128(offset)) = {gemm_sum(x[0]), gemm_sum(x[1])};
          }
        }
      }
      const int first = n + b * kDColumns;
      load_pairs(epilogue, own_pairs, kBoxColumns / 2, kConfig.gate == GateMode::kInterleaved ? 2 * first : first);
      meet();
      // This box is written again after the next barrier, at which everyone has left it.
#pragma unroll 1
      for (int i = thread(); i < kSm90BoxRows * kDColumns / 8; i += 128) {
        const int row = i / (kDColumns / 8), column = i % (kDColumns / 8) * 8;
        write_eight(epilogue, own_pairs, row, m + row, column, first + column);
      }
      box_ ^= 1;
    }
  }
  // D[m, n .. n + 7] from row `row` of the box, D's columns from `column`.
  __device__ __forceinline__ void write_eight(const Epilogue& epilogue, const Pair* pairs, int row, int m, int column,
                                              int n) const {
    const auto sums = [&](int at) {
      return *reinterpret_cast<const float2*>(box() + sm90::swizzle_128(row * kSm90RowBytes + at * 4));
    };
    const auto r = epilogue.row(m);
    float values[8];
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const int at = column + j;
      GemmPair y;
      if constexpr (kSeparated) {
        const float2 gate = sums(at), up = sums(16 + at);
        y = epilogue.gated(r, columns_of(pairs, at / 2, n + j), columns_of(pairs, 8 + at / 2, epilogue.out_n() + n + j),
                           gate.x, gate.y, up.x, up.y);
      } else if constexpr (kConfig.gate == GateMode::kInterleaved) {
        const float2 low = sums(2 * at), high = sums(2 * at + 2);
        const int64 first = 2 * static_cast<int64>(n + j);
        y = {epilogue.gated(r, columns_of(pairs, at, first), low.x, low.y),
             epilogue.gated(r, columns_of(pairs, at + 1, first + 2), high.x, high.y)};
      } else {
        const float2 x = sums(at);
        y = epilogue.linear(r, columns_of(pairs, at / 2, n + j), x.x, x.y);
      }
      values[j] = y.first, values[j + 1] = y.second;
    }
    epilogue.store(m, n, values);
  }

  const GemmSm90Args& args_;
  unsigned char* const staging_;
  const int barrier_;
  int box_ = 0;
};

}  // namespace tilewright
