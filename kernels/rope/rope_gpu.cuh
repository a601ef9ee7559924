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
  if constexpr (has_edge(kConfig)) allow_next_kernel();
  const int n = thread % kThreads * kRowPiece;
#pragma unroll 1
  for (long long first = static_cast<long long>(blockIdx.x) * kSet + thread / kThreads * kHeads; first < given.rows;
       first += given.grid * kSet) {
    const RowArgs& args = anew(given);
    const RowRotation& r = args.rotation;
    const bool pairs = !kConfig.plain && r.interleaved, turns = kConfig.plain || n < static_cast<int>(r.dims / 2);
    const RowTurn run = kConfig.plain ? RowTurn{0, r.dims / 2} : turned_run_of(r, turns ? n : 0);
    const int begin = static_cast<int>(run.begin), apart = pairs ? kRowPiece : static_cast<int>(run.pairs);
    const int low = (turns ? (pairs ? 2 * n : begin + n) : 0) * kBytes, high = low + apart * kBytes;

    RowIndex at = row_index(args, first);
    RowAngles angles{};
    PieceWords<kConfig.columns> cosine_words, sine_words;
    const auto ask_angles = [&] {
      angles = row_angles(args, at);
      const int column = (turns ? n : 0) * dtype_bits(kConfig.columns) / 8;
      cosine_words.load(angles.cosine + column);
      sine_words.load(angles.sine + column);
    };
    // Those that are mixed, before heads take registers; else behind what heads ask for.
    const bool mixed = !kConfig.plain && r.axes > 1;
    // Neighbours of a set are of one tensor in a plain kernel.
    RotatedHead heads[kHeads];
    const auto find_head = [&](int h) {
      if (!kConfig.plain || h == 0) {
        heads[h] = rotated_head(args, at);
      } else {
        const bool second = at.i[2] >= r.heads;
        heads[h].from = heads[h - 1].from + (second ? args.residual.stride[2] : args.x.stride[2]) * kBytes;
        heads[h].to = heads[h - 1].to + (second ? args.residual_out.stride[2] : args.out.stride[2]) * kBytes;
      }
      ++at.i[2];
    };
    if constexpr (has_edge(kConfig)) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        find_head(h);
        if constexpr (fetches_rows(kConfig)) {
          fetch_ahead(heads[h].from + low);
          fetch_ahead(heads[h].from + high);
          if (h == 0 && thread % kRowLanes == 0) fetch_ahead(heads[h].to);
        }
      }
      wait_for_previous_kernel();
    }
    if (mixed) {
      ask_angles();
      const auto angles_of = [&](int axis) { return row_angles(args, at, axis); };
      mix_angles<kConfig.columns>(r, turns ? n : 0, angles_of, angles, cosine_words, sine_words);
    }

    PieceWords<kConfig.x> p_words[kHeads], q_words[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if constexpr (!has_edge(kConfig)) find_head(h);
      p_words[h].load(heads[h].from + low);
      q_words[h].load(heads[h].from + high);
    }
    if (!mixed) ask_angles();

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
      if (kConfig.plain || heads[h].from == heads[h].to) continue;
#pragma unroll 1
      for (long long rest = r.dims + n; rest < args.n; rest += kThreads * kRowPiece) {
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
  for_rows<kConfig, true>(given, [&](GpuRow<kConfig>& mine) {
    const RowArgs& args = mine.args;
    constexpr DType kType = kConfig.x;
    const RowRotation& r = args.rotation;
    const DType dtype = args.x.dtype;
    if (!mine.there) return;
    const RotatedHead head = rotated_head(args, mine.at);
    if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
    const auto angles_of = [&](int axis) { return row_angles(args, mine.at, axis); };
    const auto each = [&](long long length, auto&& body) {
#pragma unroll 1
      for (long long n = mine.thread * kRowPiece; n < length; n += mine.kStep) {
        body(n, length - n < kRowPiece ? static_cast<int>(length - n) : kRowPiece);
      }
    };
#pragma unroll 1
    for (int i = 0; i < turned_runs(r); ++i) {
      const RowTurn run = turned_run(r, i);
      const long long skipped = 2 * run.begin * dtype_bits(dtype) / 8;
      const char* const from = head.from + skipped;
      char* const to = head.to + skipped;
      each(run.pairs, [&](long long n, int count) {
        // The pair.
        Piece a, b, angle;
        if (r.interleaved) {
          load_pairs<kType>(from, dtype, n, count, a, b);
        } else {
          load_piece<kType>(from, dtype, n, count, a);
          load_piece<kType>(from, dtype, run.pairs + n, anew(count), b);
        }

        // What its sine brings, then what its cosine does: addresses of one table at a time.
        Piece first, second;
        load_angles<DType::kNone, false>(r, true, run.begin + n, anew(count), angles_of, angle);
        for_elements(
            [&](int e) { first.v[e] = -__fmul_rn(b.v[e], angle.v[e]), second.v[e] = __fmul_rn(a.v[e], angle.v[e]); });
        load_angles<DType::kNone, false>(r, false, run.begin + n, anew(count), angles_of, angle);
        for_elements([&](int e) {
          first.v[e] = __fmaf_rn(a.v[e], angle.v[e], first.v[e]);
          second.v[e] = __fmaf_rn(b.v[e], angle.v[e], second.v[e]);
        });
        if (r.interleaved) return store_pairs<kType>(to, dtype, n, count, first, second);
        store_piece<kType>(to, dtype, n, count, first);
        store_piece<kType>(to, dtype, run.pairs + n, count, second);
      });
    }

    // What does not turn.
    if (head.from == head.to) return;
    each(args.n - r.dims, [&](long long n, int count) {
      Piece p;
      load_piece<kType>(head.from, dtype, r.dims + n, count, p);
      store_piece<kType>(head.to, dtype, r.dims + n, count, p);
    });
  });
}

}  // namespace tilewright
