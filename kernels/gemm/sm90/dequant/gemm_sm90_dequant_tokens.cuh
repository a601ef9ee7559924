// SPDX-License-Identifier: MIT
// How A comes to shared memory in gemm_sm90_dequant: a warpgroup loads it, several pieces ahead in registers, and stores it
// in the order of K in which the weights' words have theirs.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/sm90/memory.cuh"
#include "tile/sm90/registers/shared_words.cuh"
#include "tile/sm90/registers/wgmma_registers.cuh"
#include "tile/sm90/ring.cuh"

namespace tilewright {

// 32 values of K of a token, as they were loaded: two a word.
struct DequantPiece {
  unsigned words[16];
};

template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantTokens {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;
  static constexpr int kLoaders = gemm_sm90_dequant_loaders(kConfig);
  static constexpr int kPieces = gemm_sm90_dequant_pieces(kConfig.weight);     // of a token a step
  static constexpr int kOfStep = kConfig.tokens * kPieces;                     // pieces
  static constexpr int kRounds = kOfStep > kLoaders ? kOfStep / kLoaders : 1;  // a step
  static constexpr int kAtOnce = gemm_sm90_dequant_at_once(kConfig);           // steps a round
  static constexpr int kAhead =
      kConfig.blocks > 1 || kConfig.warpgroups > 2 ? 2 : 4;  // pieces of a thread on their way
  static constexpr int kArrivals = kOfStep < kLoaders ? kOfStep / 32 : kLoaders / 32;

  // `thread` of the loaders.
  __device__ GemmSm90DequantTokens(const GemmSm90SkinnyArgs& args, const Layout& shared, int thread)
      : args_(args), shared_(shared), thread_(thread) {}

  __device__ __forceinline__ void bring(const SkinnyWork<kConfig.splits>& work) {
    constexpr int kBody = kRounds > kAhead ? kRounds : kAhead;
    const int first = kAtOnce > 1 ? thread_ / kOfStep : 0, steps = work.steps();
    DequantSteps<kConfig.splits> next(work);
#pragma unroll 1
    for (int i = 0; i < first; ++i) advance(next, 1);
    sm90::Ring<kConfig.token_stages> ring;
    for (int i = 0; i < first; ++i) ring.advance();
    DequantPiece piece[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(next, i % kRounds, piece[i]);
    int step = first;
    while (step < steps) {
#pragma unroll
      for (int i = 0; i < kBody; ++i) {
        const int round = i % kRounds;
        if (step < steps) {
          if (round == 0) sm90::wait(shared_.empty_tokens(ring.stage), ring.phase ^ 1);
          store(ring.stage, round, piece[i % kAhead]);
          if (round == kRounds - 1) {
            sm90::fence_for_products();
            __syncwarp();
            if (thread_ % 32 == 0) sm90::arrive(shared_.full_tokens(ring.stage));
            for (int j = 0; j < kAtOnce; ++j) ring.advance();
            step += kAtOnce;
          }
          load(next, (i + kAhead) % kRounds, piece[i % kAhead]);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ static void advance(DequantSteps<kConfig.splits>& steps, int count) {
#pragma unroll 1
    for (int i = 0; i < count && steps.there(); ++i) steps.advance();
  }
  // Neighbouring lanes have the same piece of eight tokens, so that what they store meets no bank twice.
  __device__ __forceinline__ int number(int round) const { return (thread_ + round * kLoaders) % kOfStep; }
  __device__ __forceinline__ int token(int round) const {
    const int at = number(round);
    return at % 8 + at / (8 * kPieces) * 8;
  }
  __device__ __forceinline__ int piece_of_token(int round) const { return number(round) / 8 % kPieces; }

  // After the last of a step's rounds `next` is the next step of this thread.
  __device__ __forceinline__ void load(DequantSteps<kConfig.splits>& next, int round, DequantPiece& to) const {
    const int m = token(round), at = piece_of_token(round);
    const bool inside = next.there() && m < args_.gemm.m;
    const int64 row = (args_.batch_a ? next.segment.batch * args_.gemm.stride_a_batch : 0) + m * args_.gemm.stride_a_m;
    const auto* const from = static_cast<const unsigned short*>(args_.gemm.a) + row;
#pragma unroll
    for (int place = 0; place < 4; ++place) {
      const int k = next.k * Layout::kTileK + gemm_sm90_dequant_piece_k(kConfig, at, place);
      uint4 four{0, 0, 0, 0};
      if (inside && k < args_.gemm.k) four = *reinterpret_cast<const uint4*>(from + k);
      to.words[4 * place] = four.x;
      to.words[4 * place + 1] = four.y;
      to.words[4 * place + 2] = four.z;
      to.words[4 * place + 3] = four.w;
    }
    if (round == kRounds - 1) advance(next, kAtOnce);
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
  __device__ __forceinline__ static void store_chunk(unsigned row, int swizzled, const DequantPiece& piece) {
    const unsigned words[4] = {word<kChunk, 0>(piece), word<kChunk, 1>(piece), word<kChunk, 2>(piece),
                               word<kChunk, 3>(piece)};
    sm90::store_words(row + (swizzled ^ kChunk * 16), words);
  }
  __device__ __forceinline__ void store(int stage, int round, const DequantPiece& piece) const {
    const int m = token(round), at = piece_of_token(round);
    const unsigned row =
        sm90::shared_address(shared_.tokens(stage)) + at / 2 * Layout::kSliceBytes + m * kSkinnyRowBytes;
    const int swizzled = (at % 2 * 4 ^ m % 8) * 16;
    store_chunk<0>(row, swizzled, piece);
    store_chunk<1>(row, swizzled, piece);
    store_chunk<2>(row, swizzled, piece);
    store_chunk<3>(row, swizzled, piece);
  }

  const GemmSm90SkinnyArgs& args_;
  const Layout& shared_;
  const int thread_;
};

}  // namespace tilewright
