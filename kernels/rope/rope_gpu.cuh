// SPDX-License-Identifier: MIT
// rope_gpu: pairs of a head's elements turned by the angle of its token. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_input.cuh"
#include "tile/gpu/row_pairs.cuh"

namespace tilewright {

// Heads of a token share its angles: a thread takes the same eight pairs of `pieces` of them, which it asks for all at once.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void rope_whole_heads(const RowArgs& given) {
  constexpr int kThreads = kConfig.threads, kHeads = kConfig.pieces, kBytes = dtype_bits(kConfig.x) / 8;
  constexpr int kSet = row_block_threads(kThreads) / kThreads * kHeads;  // heads of a block at a time
  const auto thread = static_cast<int>(threadIdx.x);
  const int n = thread % kThreads * kRowPiece;
#pragma unroll 1
  for (long long first = static_cast<long long>(blockIdx.x) * kSet + thread / kThreads * kHeads; first < given.rows;
       first += given.grid * kSet) {
    const RowArgs& args = anew(given);
    const auto half = static_cast<int>(args.rotation.dims / 2);
    const bool pairs = args.rotation.interleaved, turns = n < half;
    const int low = (turns ? (pairs ? 2 * n : n) : 0) * kBytes, high = low + (pairs ? kRowPiece : half) * kBytes;

    RowIndex at = row_index(args, first);
    RotatedHead heads[kHeads];
    PieceWords<kConfig.x> p_words[kHeads], q_words[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h, ++at.i[2]) {
      heads[h] = rotated_head(args, at);
      p_words[h].load(heads[h].from + low);
      q_words[h].load(heads[h].from + high);
    }
    const RowAngles angles = row_angles(args, at);
    PieceWords<kConfig.columns> cosine_words, sine_words;
    const int column = (turns ? n : 0) * dtype_bits(kConfig.columns) / 8;
    cosine_words.load(angles.cosine + column);
    sine_words.load(angles.sine + column);

    Piece cosine, sine;
    cosine_words.widen(cosine);
    sine_words.widen(sine);
    for_elements([&](int i) {
      cosine.v[i] = __fmul_rn(cosine.v[i], angles.known), sine.v[i] = __fmul_rn(sine.v[i], angles.sign);
    });
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      Piece a, b;
      p_words[h].widen(a);
      q_words[h].widen(b);
      if (pairs) part_pairs(a, b);
      for_elements([&](int i) {
        const float x = a.v[i];
        a.v[i] = __fmaf_rn(x, cosine.v[i], -__fmul_rn(b.v[i], sine.v[i]));
        b.v[i] = __fmaf_rn(b.v[i], cosine.v[i], __fmul_rn(x, sine.v[i]));
      });
      if (pairs) join_pairs(a, b);
      const int count = turns ? kRowPiece : 0;
      store_piece<kConfig.x, true>(heads[h].to + low, kConfig.x, 0, count, a);
      store_piece<kConfig.x, true>(heads[h].to + high, kConfig.x, 0, count, b);

      // What does not turn.
      if (heads[h].from == heads[h].to) continue;
#pragma unroll 1
      for (long long rest = args.rotation.dims + n; rest < args.n; rest += kThreads * kRowPiece) {
        PieceWords<kConfig.x> same;
        same.load(heads[h].from + rest * kBytes);
        same.store(heads[h].to + rest * kBytes);
      }
    }
  }
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void rope_gpu(const RowArgs& given) {
  if constexpr (kConfig.whole) return rope_whole_heads<kConfig>(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& mine) {
    const RowArgs& args = mine.args;
    constexpr DType kType = kConfig.x;
    const RowRotation& r = args.rotation;
    const DType dtype = args.x.dtype;
    if (!mine.there) return;
    const RotatedRow row = rotated_row(args, mine.at);
    const long long half = r.dims / 2;
    const auto each = [&](long long length, auto&& body) {
#pragma unroll 1
      for (long long n = mine.thread * kRowPiece; n < length; n += mine.kStep) {
        body(n, length - n < kRowPiece ? static_cast<int>(length - n) : kRowPiece);
      }
    };
    each(half, [&](long long n, int count) {
      // The pair.
      Piece a, b, angle;
      if (r.interleaved) {
        load_pairs<kType>(row.from, dtype, n, count, a, b);
      } else {
        load_piece<kType>(row.from, dtype, n, count, a);
        load_piece<kType>(row.from, dtype, half + n, anew(count), b);
      }

      // What its sine brings, then what its cosine does: addresses of one table at a time.
      Piece first, second;
      load_piece<DType::kNone>(row.sine, r.table, n, anew(count), angle);
      for_elements([&](int i) {
        const float s = __fmul_rn(angle.v[i], row.sign);
        first.v[i] = -__fmul_rn(b.v[i], s), second.v[i] = __fmul_rn(a.v[i], s);
      });
      load_piece<DType::kNone>(row.cosine, r.table, n, anew(count), angle);
      for_elements([&](int i) {
        const float c = __fmul_rn(angle.v[i], row.known);
        first.v[i] = __fmaf_rn(a.v[i], c, first.v[i]), second.v[i] = __fmaf_rn(b.v[i], c, second.v[i]);
      });
      if (r.interleaved) return store_pairs<kType>(row.to, dtype, n, count, first, second);
      store_piece<kType>(row.to, dtype, n, count, first);
      store_piece<kType>(row.to, dtype, half + n, count, second);
    });

    // What does not turn.
    if (row.from == row.to) return;
    each(args.n - r.dims, [&](long long n, int count) {
      Piece p;
      load_piece<kType>(row.from, dtype, r.dims + n, count, p);
      store_piece<kType>(row.to, dtype, r.dims + n, count, p);
    });
  });
}

}  // namespace tilewright
