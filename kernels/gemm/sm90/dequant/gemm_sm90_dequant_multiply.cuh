// SPDX-License-Identifier: MIT
// A warpgroup of gemm_sm90_dequant: words of weights from shared memory, widened in registers, times A's tile.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_scales.cuh"
#include "tile/sm90/registers/shared_words.cuh"
#include "tile/sm90/registers/wgmma_registers.cuh"
#include "tile/sm90/ring.cuh"
#include "tile/sm90/wait_both.cuh"

namespace tilewright {

template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantMultiply {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;
  using Scales = GemmSm90DequantScales<kConfig>;
  static constexpr int kParts = Layout::kParts, kSums = kConfig.tokens / 2;
  static constexpr bool kFolds = gemm_sm90_dequant_folds(kConfig), kPromotes = gemm_sm90_dequant_promotes(kConfig);
  static constexpr bool kScaled = kFolds || kPromotes;

  __device__ GemmSm90DequantMultiply(const GemmSm90DequantArgs& args, const Layout& shared)
      : shared_(shared), scales_(args) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int turn = gemm_sm90_dequant_row(kConfig, thread % 32 / 4), row = thread / 32 * 16 + turn,
              quarter = thread % 4;
    words_ = row * kSkinnyRowBytes + ((quarter * kRun / 4 ^ turn) * 16 + quarter * kRun % 4 * 4);
  }

  // The sums of a segment.
  __device__ __forceinline__ void run(const SkinnySegment& s, float (&sum)[kParts][kSums]) {
    if constexpr (kScaled) scales_.begin(s);
    DequantShift<kParts> shift;
    // The same in all lanes, which the compiler cannot know: descriptors then stay in uniform registers.
    const int steps = __shfl_sync(0xFFFFFFFF, s.k1 - s.k0, 0);
#pragma unroll kTurns
    for (int k = 0; k < steps; ++k) {
      typename Scales::Step codes;
      if constexpr (kScaled) codes = scales_.take();
      if constexpr (kFolds) raise(codes, shift, sum);
      sm90::wait_both(shared_.full(ring_.stage), ring_.phase, shared_.full_tokens(token_ring_.stage),
                      token_ring_.phase);
      step(codes, shift, sum);
      ring_.advance();
      token_ring_.advance();
    }
    if constexpr (kFolds) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) multiply_rows(sum[part], shift.of[part]);
    }
    if constexpr (constexpr int kShift = widened_shift<kConfig.weight, kConfig.dtype>(); kShift != 0) {
      constexpr int kAll[2] = {kShift, kShift};
#pragma unroll
      for (int part = 0; part < kParts; ++part) multiply_rows(sum[part], kAll);
    }
    if constexpr (gemm_sm90_dequant_row(kConfig, 1) != 1) put_in_order(sum);
  }

 private:
  static constexpr int kTile = Layout::kTileK / 16;                                        // instructions of a step
  static constexpr int kOfWord = kTile / kDequantWords;                                    // of a word
  static constexpr int kChunk = kPromotes && kConfig.group < 64 ? kConfig.group / 16 : 4;  // at a time
  static constexpr int kChunkWords = kChunk / kOfWord;
  static constexpr int kRanges = kPromotes ? Layout::kTileK / kConfig.group : 1;  // groups that are summed apart
  static constexpr int kOfRange = kTile / kChunk / kRanges;                       // chunks
  static constexpr int kUnits = kTile / kChunk * kParts;
  // Many warps, or many sums, leave no registers to what follows.
  static constexpr bool kRoomy = kConfig.blocks == 1 && kConfig.warpgroups <= 2 && kSums <= 16;
  static constexpr int kRun = gemm_sm90_dequant_run(kConfig);  // words that lie together
  static constexpr int kLoaded = kRun < 4 ? kRun : 4;          // at once
  static constexpr int kHeld = kLoaded < kChunkWords ? kChunkWords : kLoaded;
  // Sums of two groups: one is added while the next is made.
  static constexpr int kApart = kRoomy && kSums <= 8 ? 2 : 1;
  // Turns of the loop side by side: scales that are asked for two steps ahead then move between no registers.
  static constexpr int kTurns = kRoomy && kParts == 1 && kSums <= 8 ? 2 : 1;
  using Wgmma = sm90::WgmmaOfRegisters<kConfig.dtype, kConfig.tokens>;

  __device__ __forceinline__ static void release(sm90::Barrier& barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) sm90::arrive(barrier);
  }
  __device__ __forceinline__ static void pin_all(float (&sum)[kParts][kSums]) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) sm90::pin(sum[part]);
  }
  // Sums of rows go to the threads that have them in a product's own order.
  __device__ __forceinline__ static void put_in_order(float (&sum)[kParts][kSums]) {
    const auto lane = static_cast<int>(sm90::fresh_thread() % 32);
    int from = 0;
#pragma unroll
    for (int octet = 1; octet < 8; ++octet) {
      if (gemm_sm90_dequant_row(kConfig, octet) == lane / 4) from = octet;
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sum[part][i] = __shfl_sync(0xFFFFFFFF, sum[part][i], from * 4 + lane % 4);
    }
  }
  // Rows r and r + 8 of a part times 2^shift.
  __device__ __forceinline__ static void multiply_rows(float (&sum)[kSums], const int (&shift)[2]) {
    const float upper = __uint_as_float((127 + shift[0]) << 23), lower = __uint_as_float((127 + shift[1]) << 23);
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] *= i % 4 < 2 ? upper : lower;
  }

  // A code that the shifts do not hold: they become larger, and the sums smaller.
  __device__ __forceinline__ static void raise(const typename Scales::Step& codes, DequantShift<kParts>& shift,
                                               float (&sum)[kParts][kSums]) {
    bool holds = true;
#pragma unroll
    for (int i = 0; i < kParts * 2 * Scales::kCount; ++i) {
      const int part = i / Scales::kCount / 2, half = i / Scales::kCount % 2;
      holds &= shift.holds(part, half, codes.bits[part][half][i % Scales::kCount]);
    }
    if (__all_sync(0xFFFFFFFF, holds)) return;
    sm90::wait_products<0>();
    pin_all(sum);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      int down[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int wanted = shift.of[part][half];
#pragma unroll
        for (int i = 0; i < Scales::kCount; ++i) {
          const auto code = static_cast<int>(codes.bits[part][half][i]);
          if (code != 255) wanted = max(wanted, code - 128);
        }
        // The four threads of a row add to the same sums.
        wanted = max(wanted, __shfl_xor_sync(0xFFFFFFFF, wanted, 1));
        wanted = max(wanted, __shfl_xor_sync(0xFFFFFFFF, wanted, 2));
        down[half] = shift.of[part][half] - wanted;
        shift.of[part][half] = wanted;
      }
      multiply_rows(sum[part], down);
    }
    pin_all(sum);
  }

  // sum += scale * apart.
  __device__ __forceinline__ static void add(const float (&apart)[kSums], const float (&scale)[2],
                                             float (&sum)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] = __fmaf_rn(apart[i], scale[i % 4 / 2], sum[i]);
  }

  // Of a chunk, with those behind it that the same load brings.
  __device__ __forceinline__ void load_words(unsigned base, int part, int chunk, unsigned (&words)[2][4]) const {
    if (chunk * kChunkWords % kHeld != 0) return;
    const unsigned rows = base + part * kConfig.warpgroups * 64 * kSkinnyRowBytes;
#pragma unroll
    for (int i = 0; i < kHeld; i += kLoaded) {
      // The swizzle moves sixteen bytes together.
      const int word = chunk * kChunkWords + i, far = word / kRun * kRun * 4 + word % kRun;
      const unsigned at = rows + (words_ ^ far / 4 * 16) + far % 4 * 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned from = at + half * 8 * kSkinnyRowBytes;
        if constexpr (kLoaded == 4) {
          const uint4 four = sm90::load_words(from);
          words[half][0] = four.x, words[half][1] = four.y, words[half][2] = four.z, words[half][3] = four.w;
        } else if constexpr (kLoaded == 2) {
          const uint2 two = sm90::load_two_words(from);
          words[half][i] = two.x, words[half][i + 1] = two.y;
        } else {
          words[half][i] = sm90::load_word(from);
        }
      }
    }
  }
  template <int kSub>
  __device__ __forceinline__ static void widen(const unsigned (&words)[2], const WidenOperands (&operands)[2],
                                               unsigned (&to)[4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to[half] = widen_pair<kConfig.weight, kConfig.dtype, 2 * kSub, Scales::kZeroed>(words[half], operands[half]);
      to[2 + half] =
          widen_pair<kConfig.weight, kConfig.dtype, 2 * kSub + 1, Scales::kZeroed>(words[half], operands[half]);
    }
  }

  // A stage. A chunk is widened while the one before is multiplied, and follows it without a pause where registers allow; then
  // that one is waited for, whose fragments are written next. At the end nothing is in flight: over the end of a loop ptxas would not let registers of a product be written while another one runs,
  // and would wait for each.
  __device__ __forceinline__ void step(const typename Scales::Step& codes, const DequantShift<kParts>& shift,
                                       float (&sum)[kParts][kSums]) {
    const unsigned base = sm90::shared_address(shared_.weights(ring_.stage));
    const unsigned long long tokens =
        sm90::descriptor<Major::kK>(sm90::shared_address(shared_.tokens(token_ring_.stage)), 0);
    unsigned words[2][4], fragments[2][kChunk][4];
    float apart[kPromotes ? kApart : 1][kSums];
    [[maybe_unused]] float scale[kApart][2];
    // The sums of a group that is complete.
    const auto add_group = [&](int unit) {
      const int group = unit / kOfRange;
      sm90::pin(apart[group % kApart]);
      add(apart[group % kApart], scale[group % kApart], sum[group % kParts]);
    };
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int group = unit / kOfRange, range = group / kParts, part = group % kParts;
      const int chunk = range * kOfRange + unit % kOfRange;
      const bool begins = unit % kOfRange == 0;
      load_words(base, part, chunk, words);
      widen_chunk(words, chunk, part, codes, shift, fragments[unit % 2]);
      if (unit > 0 && (!kRoomy || (kPromotes && kApart == 1 && begins))) sm90::wait_products<0>();
      if constexpr (kPromotes) {
        if (kApart == 1 && begins && unit > 0) add_group(unit - 1);
        if (begins) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            scale[group % kApart][half] = widen_scale<kConfig.scale>(codes.bits[part][half][range]);
          }
        }
        multiply(apart[group % kApart], fragments[unit % 2], tokens, chunk, !begins);
        if (unit > 0) sm90::wait_products<1>();
        if (kApart == 2 && begins && unit > 0) add_group(unit - 1);
      } else {
        multiply(sum[part], fragments[unit % 2], tokens, chunk, true);
        if (unit > 0) sm90::wait_products<1>();
      }
    }
    // Not before the last product is asked for, which has all words: an arrival overtakes loads that wait in front of memory.
    release(shared_.empty(ring_.stage));
    sm90::wait_products<0>();
    if constexpr (kPromotes) {
      add_group(kUnits - 1);
    } else {
      pin_all(sum);
    }
    release(shared_.empty_tokens(token_ring_.stage));
  }
  __device__ __forceinline__ void widen_chunk(const unsigned (&words)[2][4], int chunk, int part,
                                              const typename Scales::Step& codes, const DequantShift<kParts>& shift,
                                              unsigned (&fragments)[kChunk][4]) const {
    const int first = chunk * kChunkWords % kHeld;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const int word = i / kOfWord;
      constexpr WidenOperands kPlain = widen_operands<kConfig.weight, kConfig.dtype>();
      WidenOperands operands[2] = {kPlain, kPlain};
      if constexpr (kFolds) {
        const int code = (chunk * kChunkWords + word) * word_values(kConfig.weight) / kConfig.group;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          operands[half].even = operands[half].odd = shift.factor(part, half, codes.bits[part][half][code]);
        }
      }
      if constexpr (Scales::kZeroed) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          operands[half] =
              zeroed_operands<kConfig.weight, kConfig.dtype>(scales_.zero(codes, part, half, chunk / kOfRange));
        }
      }
      const unsigned both[2] = {words[0][first + word], words[1][first + word]};
      if (i % kOfWord == 0) {
        widen<0>(both, operands, fragments[i]);
      } else if constexpr (kOfWord == 2) {
        widen<1>(both, operands, fragments[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) sm90::pin(fragments[i]);
  }
  __device__ __forceinline__ static void multiply(float (&sum)[kSums], const unsigned (&fragments)[kChunk][4],
                                                  unsigned long long tokens, int chunk, bool adds) {
    sm90::pin(sum);
    sm90::begin_products();
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const int at = chunk * kChunk + i;
      Wgmma::multiply(sum, fragments[i],
                      tokens + (at / 4 * Layout::kSliceBytes >> 4) + at % 4 * sm90::kDescriptorStep<Major::kK>,
                      adds || i > 0);
    }
    sm90::commit_products();
    sm90::pin(sum);
  }

  const Layout& shared_;
  Scales scales_;
  sm90::Ring<kConfig.stages> ring_;
  sm90::Ring<kConfig.token_stages> token_ring_;
  unsigned words_;  // of a stage's weights: where this thread's first word of its upper row lies
};

}  // namespace tilewright
