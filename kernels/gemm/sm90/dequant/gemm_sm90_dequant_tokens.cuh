// SPDX-License-Identifier: MIT
// A in gemm_sm90_dequant: before the products all blocks rearrange it together, each a share, into the order of K in which the
// weights' words have theirs. From then on a step's A is bytes in a row, which the copy engine brings.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/sm90/fresh_thread.cuh"
#include "tile/sm90/global_proxy.cuh"
#include "tile/sm90/memory.cuh"

namespace tilewright {

// 32 values of K of a token, as they were loaded: two a word.
struct DequantPiece {
  unsigned words[16];
};
// An entry of A: rows one after another, so many.
struct DequantRows {
  const unsigned short* first;
  int count;
};

template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantTokens {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;
  static constexpr int kPieces = gemm_sm90_dequant_pieces(kConfig.weight);  // of a token a step
  static constexpr int kMeeting = 9;                                        // named barrier of those that multiply

  __device__ __forceinline__ explicit GemmSm90DequantTokens(const GemmSm90DequantArgs& args)
      : args_(args), steps_((args.product.gemm.k + Layout::kTileK - 1) / Layout::kTileK) {}

  // Where the A of a step lies. What is brought of it waits for all_there().
  __device__ __forceinline__ const unsigned char* step(int entry, int k) const {
    return args_.tokens + (entry * static_cast<int64>(steps_) + k) * Layout::kTokenBytes;
  }

  // This block's share of all `entries`, whose rows `rows_of` tells; all threads that multiply. Warps of all blocks take turns: what is
  // few is everybody's.
  template <class Rows>
  __device__ __forceinline__ void rearrange(int entries, const Rows& rows_of) const {
    const unsigned thread = sm90::fresh_thread(), blocks = sm90::cluster_count();
    const int64 pieces = entries * static_cast<int64>(steps_) * kConfig.tokens * kPieces;
    const int64 first = (thread / 32 * static_cast<int64>(blocks) + sm90::cluster_id()) * 32 + thread % 32;
#pragma unroll 1
    for (int64 i = first; i < pieces; i += static_cast<int64>(blocks) * Layout::kThreads) {
      const auto at = static_cast<int>(i % kPieces);
      const int64 rows = i / kPieces;
      const auto m = static_cast<int>(rows % kConfig.tokens);
      const int64 steps = rows / kConfig.tokens;
      const auto entry = static_cast<int>(entries > 1 ? steps / steps_ : 0);
      DequantPiece piece;
      load(rows_of(entry), static_cast<int>(steps) - entry * steps_, m, at, piece);
      store(args_.tokens + steps * Layout::kTokenBytes, m, at, piece);
    }
    sm90::show_copy_engine_global();
    sm90::named_barrier(kMeeting, Layout::kThreads);
    if (thread == 0) sm90::count_release(args_.blocks_done, 2 * blocks - 1);
  }
  // One thread of a block, once, behind the kernels in front. The counter goes up to twice the number of blocks, which is 0 again:
  // once as they have done their share, once as they have seen that all have.
  __device__ __forceinline__ void wait_all_there() const {
    const unsigned blocks = sm90::cluster_count();
    while (sm90::load_acquire(args_.blocks_done) < blocks) {
    }
    sm90::count_relaxed(args_.blocks_done, 2 * blocks - 1);
  }

 private:
  __device__ __forceinline__ void load(const DequantRows& rows, int step, int m, int at, DequantPiece& to) const {
    const GemmArgs& gemm = args_.product.gemm;
    const unsigned short* const row = rows.first + m * gemm.stride_a_m;
#pragma unroll
    for (int place = 0; place < 4; ++place) {
      const int k = step * Layout::kTileK + gemm_sm90_dequant_piece_k(kConfig, at, place);
      uint4 four{0, 0, 0, 0};
      if (m < rows.count && k < gemm.k) four = *reinterpret_cast<const uint4*>(row + k);
      to.words[4 * place] = four.x;
      to.words[4 * place + 1] = four.y;
      to.words[4 * place + 2] = four.z;
      to.words[4 * place + 3] = four.w;
    }
  }

  template <int kFirst, int kSecond>
  __device__ __forceinline__ static unsigned pair(const DequantPiece& piece) {
    constexpr unsigned kSelect = (kFirst % 2 ? 0x32u : 0x10u) | (kSecond % 2 ? 0x7600u : 0x5400u);
    return __byte_perm(piece.words[kFirst / 2], piece.words[kSecond / 2], kSelect);
  }
  template <int kChunk, int kQuarter>
  __device__ __forceinline__ static unsigned word(const DequantPiece& piece) {
    return pair<gemm_sm90_dequant_piece_value(kConfig, kChunk, kQuarter, 0),
                gemm_sm90_dequant_piece_value(kConfig, kChunk, kQuarter, 1)>(piece);
  }
  template <int kChunk>
  __device__ __forceinline__ static void store_chunk(unsigned char* row, int swizzled, const DequantPiece& piece) {
    *reinterpret_cast<uint4*>(row + (swizzled ^ kChunk * 16)) = {word<kChunk, 0>(piece), word<kChunk, 1>(piece),
                                                                 word<kChunk, 2>(piece), word<kChunk, 3>(piece)};
  }
  __device__ __forceinline__ static void store(unsigned char* step, int m, int at, const DequantPiece& piece) {
    unsigned char* const row = step + at / 2 * Layout::kSliceBytes + m * kSkinnyRowBytes;
    const int swizzled = (at % 2 * 4 ^ m % 8) * 16;
    store_chunk<0>(row, swizzled, piece);
    store_chunk<1>(row, swizzled, piece);
    store_chunk<2>(row, swizzled, piece);
    store_chunk<3>(row, swizzled, piece);
  }

  const GemmSm90DequantArgs& args_;
  const int steps_;
};

}  // namespace tilewright
