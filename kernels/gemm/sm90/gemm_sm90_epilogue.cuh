// SPDX-License-Identifier: MIT
// D of gemm_sm90: a warp's 16 rows of sums become elements of D, on the warp's own. Two ways, both through shared memory, in
// boxes of 16 rows of 128 bytes, two in turn:
//   words     16-bit D, rows contiguous and at multiples of 16 bytes: registers become D's elements, 64 columns a box;
//   elements  any other: sums go to shared memory, 32 columns a box, and come back eight columns a thread.
// Ordinary stores: nobody waits for them. The copy engine would have to read a box before it can be written again.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "gemm/sm90/gemm_sm90_partial.cuh"
#include "tile/sm90/memory.cuh"

namespace tilewright {

template <GemmSm90Config kConfig>
class GemmSm90Output {
 public:
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  static constexpr bool kInterleaved = kConfig.gate == GateMode::kInterleaved;
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;
  using Sum = typename GemmSm90Layout<kConfig>::Wgmma::Accumulator;
  // A box: columns of D, and the sums of a thread that they come from.
  static constexpr int kDColumns = kConfig.d_words ? kSm90RowBytes / 2 : kConfig.gate == GateMode::kNone ? 32 : 16;
  static constexpr int kBoxSums = (kConfig.gate == GateMode::kNone ? kDColumns : 2 * kDColumns) / 2;
  static constexpr int kBoxes = kConfig.tile_n / 2 / kBoxSums;
  // A long body stands once, in a loop at run time, so that a kernel compiles in a second.
  static constexpr bool kShort = kConfig.d_words && kConfig.activation == Activation::kNone && !kSeparated;

  // `staging`: kSm90StagingBytes of shared memory, this warpgroup's own.
  __device__ GemmSm90Output(const GemmSm90Args& args, unsigned char* staging, int warpgroup)
      : args_(args), staging_(staging + warp() * kSm90Boxes * kSm90BoxBytes), warpgroup_(warpgroup) {}

  // Of the warpgroup's rows m to m + 63 and D's columns n and up. A separated gate: the second half of `sum` is up.
  __device__ __forceinline__ void write(Sum (&sum)[kConfig.tile_n / 2], int m, int n, int batch, GemmSm90Part part) {
    if (part.parts > 1) exchange(sum, part);
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, batch);
    m += 16 * warp();
    const Lines lines = kConfig.d_words ? lines_of(epilogue, m, n) : Lines{};
#pragma unroll(kShort ? kBoxes : 1)
    for (int b = 0; b < kBoxes; ++b) {
      if (part.parts > 1 && b % part.parts != part.part) continue;
      // Registers have no addresses: each box has its own copy of this.
      Sum x[kBoxSums];
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        if (i != b) continue;
#pragma unroll
        for (int j = 0; j < kBoxSums; ++j) x[j] = sum[place(i, j)];
      }
      if constexpr (kConfig.d_words) {
        write_words(epilogue, lines, x, m, n + b * kDColumns, b * kDColumns);
      } else {
        write_elements(epilogue, x, m, n + b * kDColumns);
      }
      box_ ^= 1;
    }
  }

 private:
  using Columns = typename Epilogue::Columns;

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int warp() { return threadIdx.x / 32 % 4; }
  __device__ __forceinline__ unsigned char* box() const { return staging_ + box_ * kSm90BoxBytes; }

  // What a thread stores of a box of words: eight threads a row, four rows apart.
  struct Lines {
    char* to;  // the first, of the tile's first box
    int64 step;
    int rows;  // of D, from the first on
  };
  __device__ __forceinline__ static Lines lines_of(const Epilogue& epilogue, int m, int n) {
    return {epilogue.address(m + lane() / 8, n + lane() % 8 * 8), 4 * epilogue.row_bytes(),
            static_cast<int>(epilogue.rows()) - m - lane() / 8};
  }

  // Of a thread's j-th sum of a box among all its sums: a separated gate's box has as many of each half.
  __device__ static constexpr int place(int box, int j) {
    constexpr int kHalf = kBoxSums / 2;
    if (!kSeparated) return box * kBoxSums + j;
    return box * kHalf + j % kHalf + (j < kHalf ? 0 : kConfig.tile_n / 4);
  }

  __device__ __forceinline__ void exchange(Sum (&sum)[kConfig.tile_n / 2], GemmSm90Part part) const {
    const GemmSm90Exchange<Sum, kBoxes, kBoxSums> exchange(args_, part, 1 + warpgroup_);
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      if (!exchange.owns(i)) exchange.give(i, [&](int j) { return sum[place(i, j)]; });
    }
    exchange.meet();
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      if (exchange.owns(i)) exchange.take(i, [&](int j) -> Sum& { return sum[place(i, j)]; });
    }
    exchange.leave();
  }

  // Each thread reads scale and bias of one pair of columns; the others ask it.
  __device__ __forceinline__ static Columns columns_of(const Columns& own, int pair, int64 n) {
    if constexpr (kConfig.epilogue != EpilogueKind::kLinear) return {n, {1.0f, 1.0f}, {-0.0f, -0.0f}};
    const auto ask = [&](float x) { return __shfl_sync(0xFFFFFFFF, x, pair); };
    return {n, {ask(own.scale.first), ask(own.scale.second)}, {ask(own.bias.first), ask(own.bias.second)}};
  }

  __device__ __forceinline__ void write_words(const Epilogue& epilogue, const Lines& lines, const Sum (&x)[kBoxSums],
                                              int m, int n, int from_first) {
    const auto upper = epilogue.row(m + lane() / 4), lower = epilogue.row(m + lane() / 4 + 8);
    const Columns own = epilogue.columns(n + 2 * lane());
    const Columns own_up = epilogue.columns(kSeparated ? epilogue.out_n() + n + 2 * lane() : n);
    // 16 columns at a time: matrices of the warp's rows 0-7 and 8-15, of columns 0-7, then 8-15. Under the swizzle a box's
    // column is an XOR of its address.
    const unsigned own_box = sm90::shared_address(box());
    const unsigned matrix = own_box + sm90::swizzle_128(lane() % 16 * kSm90RowBytes + lane() / 16 * 16);
#pragma unroll
    for (int j = 0; j < kDColumns; j += 16) {
      unsigned words[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = j / 2 + half * 4, pair = at + lane() % 4;  // at, at + 1: the upper row; then the lower
        const Columns columns = columns_of(own, pair, n + 2 * pair);
        GemmPair high, low;
        if constexpr (kSeparated) {
          const Columns up = columns_of(own_up, pair, epilogue.out_n() + n + 2 * pair);
          const Sum* y = &x[kBoxSums / 2];
          high = epilogue.gated(upper, columns, up, x[at], x[at + 1], y[at], y[at + 1]);
          low = epilogue.gated(lower, columns, up, x[at + 2], x[at + 3], y[at + 2], y[at + 3]);
        } else {
          high = epilogue.linear(upper, columns, x[at], x[at + 1]);
          low = epilogue.linear(lower, columns, x[at + 2], x[at + 3]);
        }
        words[2 * half] = Epilogue::pack(high.first, high.second);
        words[2 * half + 1] = Epilogue::pack(low.first, low.second);
      }
      sm90::store_matrix_x4(matrix ^ j * 2, words[0], words[1], words[2], words[3]);
    }
    __syncwarp();  // this box is written again after the next one's
    if (n + lane() % 8 * 8 >= epilogue.out_n()) return;
    const unsigned line = own_box + sm90::swizzle_128(lane() / 8 * kSm90RowBytes + lane() % 8 * 16);
    uint4 words[kSm90BoxRows / 4];
#pragma unroll
    for (int i = 0; i < kSm90BoxRows; i += 4)
      words[i / 4] = sm90::load_words((line ^ (i & 4) * 16) + i * kSm90RowBytes);
    char* to = lines.to + from_first * 2;
#pragma unroll
    for (int i = 0; i < kSm90BoxRows; i += 4, to += lines.step) {
      if (i < lines.rows) *reinterpret_cast<uint4*>(to) = words[i / 4];
    }
  }

  // A row of the box holds 32 columns of sums: with a separated gate 16 of each half side by side.
  __device__ __forceinline__ void write_elements(const Epilogue& epilogue, const Sum (&x)[kBoxSums], int m, int n) {
#pragma unroll
    for (int i = 0; i < kBoxSums; i += 2) {
      const int row = lane() / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane() % 4 * 2;
      *reinterpret_cast<float2*>(box() + sm90::swizzle_128(row * kSm90RowBytes + column * 4)) = {gemm_sum(x[i]),
                                                                                                 gemm_sum(x[i + 1])};
    }
    const int pair = lane() % 16, first = kInterleaved ? 2 * n : n;
    const Columns own =
        epilogue.columns(kSeparated && pair >= 8 ? epilogue.out_n() + first + 2 * (pair - 8) : first + 2 * pair);
    __syncwarp();  // this box is written again after the next one's
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
  unsigned char* const staging_;
  const int warpgroup_;
  int box_ = 0;
};

}  // namespace tilewright
