// SPDX-License-Identifier: MIT
// A thread's words of weights in gemm_sm90_dequant, from a stage in shared memory to fragments: as rows lie, or packed.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/sm90/registers/shared_words.cuh"

namespace tilewright {

// Words that one load brings: of those that lie together, where two parts take turns no more than a group's.
constexpr int gemm_sm90_dequant_loaded(const GemmSm90DequantConfig& c) {
  const bool turns = narrow_weights_promote(c) && c.rows / 64 > c.warpgroups;
  const int run = gemm_sm90_dequant_run(c), of_group = c.group / word_values(c.weight) / 4;
  const int most = turns && of_group < 4 ? of_group : 4;
  return run < most ? run : most;
}

// Of a chunk of so many words, held with those behind it that the same load brings.
template <GemmSm90DequantConfig kConfig, int kChunkWords, int kHeld>
class GemmSm90DequantWords {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;

  __device__ __forceinline__ explicit GemmSm90DequantWords(int thread) {
    const int turn = gemm_sm90_dequant_row(kConfig, thread % 32 / 4), row = thread / 32 * 16 + turn,
              at = thread % 4 * kRun;
    first_ = kConfig.packed ? thread / 128 * Layout::kGroupStage + thread % 128 / 32 * kFragmentBytes + thread % 32 * 16
                            : row * kSkinnyRowBytes + ((at / 4 ^ turn) * 16 + at % 4 * 4);
  }

  __device__ __forceinline__ void load(unsigned base, int part, int chunk, unsigned (&words)[2][kHeld]) const {
    if (chunk * kChunkWords % kHeld != 0) return;
    const unsigned rows = base + part * kConfig.warpgroups * 64 * kSkinnyRowBytes;
#pragma unroll
    for (int i = 0; i < kHeld; i += kLoaded) {
      // The swizzle moves sixteen bytes together.
      const int word = chunk * kChunkWords + i, far = word / kRun * kRun * 4 + word % kRun;
      const unsigned at = rows + (kConfig.packed ? first_ + word / kRun * Layout::kGroupBytes + word % kRun * 4
                                                 : (first_ ^ far / 4 * 16) + far % 4 * 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned from = at + half * (kConfig.packed ? kFragmentBytes / 2 : 8 * kSkinnyRowBytes);
        if constexpr (kLoaded == 4) {
          const uint4 four = sm90::load_words(from);
          words[half][i] = four.x, words[half][i + 1] = four.y, words[half][i + 2] = four.z,
          words[half][i + 3] = four.w;
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
      to[half] = widen_one<2 * kSub>(words[half], operands[half]);
      to[2 + half] = widen_one<2 * kSub + 1>(words[half], operands[half]);
    }
  }

 private:
  static constexpr int kRun = gemm_sm90_dequant_run(kConfig), kLoaded = gemm_sm90_dequant_loaded(kConfig);

  template <int kPair>
  __device__ __forceinline__ static unsigned widen_one(unsigned word, const WidenOperands& operands) {
    if constexpr (kConfig.packed && !fragments_in_order(kConfig.weight)) {
      return fma_pairs<kConfig.dtype>(e2m1_fragment_as_bf16<kPair>(word), operands.even, 0x80008000u);
    } else {
      constexpr bool kZeroed = kConfig.zero != DType::kNone;
      return widen_pair<kConfig.weight, kConfig.dtype, kPair, kZeroed>(word, operands);
    }
  }

  unsigned first_;  // of a stage's weights: where this thread's first word of its upper row lies
};

}  // namespace tilewright
