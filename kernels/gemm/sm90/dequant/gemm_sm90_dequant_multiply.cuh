// SPDX-License-Identifier: MIT
// Who multiplies in gemm_sm90_dequant: words of weights from shared memory, widened in registers, times A's tile.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_factors.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_scale_rows.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_scales.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_warp_products.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_words.cuh"
#include "tile/sm90/fresh_thread.cuh"
#include "tile/sm90/registers/wgmma_registers.cuh"
#include "tile/sm90/ring.cuh"
#include "tile/sm90/uniform.cuh"

namespace tilewright {

template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantMultiply {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;
  static constexpr int kParts = Layout::kParts, kSums = kConfig.tokens / 2;
  static constexpr bool kFolds = Layout::kFolds, kPromotes = Layout::kPromotes, kZeroed = kConfig.zero != DType::kNone;

  __device__ GemmSm90DequantMultiply(const GemmSm90DequantArgs& args, const Layout& shared)
      : shared_(shared), whole_(args), half_step_(args.product.gemm.k), words_(static_cast<int>(threadIdx.x)) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int row = thread / 32 * 16 + gemm_sm90_dequant_row(kConfig, thread % 32 / 4), quarter = thread % 4;
    groups_ =
        (kWhole ? row * whole_.row_bytes() : row * kGroups) + (kFolds ? quarter * Factors::kRunK / kConfig.group : 0);
  }

  // The sums of a segment.
  __device__ __forceinline__ void run(const SkinnySegment& s, float (&sum)[kParts][kSums]) {
    DequantShift<kParts> shift;
    // The same in all lanes, which the compiler cannot know: descriptors then stay in uniform registers.
    const int half = kFolds ? sm90::uniform(half_step_.ends(s) ? 1 : 0) : 0;
    const int steps = sm90::uniform(s.k1 - s.k0) - half;
    const unsigned word = sm90::uniform(ring_.stage * 2u + ring_.phase);
    ring_.stage = static_cast<int>(word / 2), ring_.phase = word % 2;
    if constexpr (kWhole) begin_whole(s, shift);
#pragma unroll kTurns
    for (int k = 0; k < steps; ++k) take_step<1>(s.k0 + k, shift, sum, k > 0);
    if constexpr (kFlows) {
      sm90::wait_products<0>();
      pin_all(sum);
      give_back(before(ring_.stage), 0, steps > 0);
    }
    if constexpr (kFolds) {
      if (half != 0) take_step<2>(s.k1 - 1, shift, sum, false);
    }
    if constexpr (kWhole) {
      // Each code has become a factor.
      __syncwarp();
      if (threadIdx.x % 32 == 0) sm90::arrive(shared_.scales_read(slot_.stage));
      slot_.advance();
    }
    if constexpr (kFolds) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int lacks[2] = {shift.whole(part, 0), shift.whole(part, 1)};
        multiply_rows(sum[part], lacks, shift.is_number[part]);
      }
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
  using Whole = GemmSm90DequantScaleRows<kConfig>;
  static constexpr bool kWhole = kConfig.scale_row != 0;
  static constexpr int kScaleHalves = Whole::kHalves;
  // Many warps, or many sums, leave no registers to what follows.
  static constexpr bool kRoomy = kSums <= 32 && (kPromotes ? kConfig.blocks == 1 && kConfig.warpgroups <= 2
                                                           : kConfig.blocks * kConfig.warpgroups <= (kWhole ? 4 : 3));
  // Products go on over the end of a step, whose stage goes back in the next one.
  static constexpr bool kFlows = !kPromotes && kRoomy && (!kFolds || kWhole);
  static constexpr int kRun = gemm_sm90_dequant_run(kConfig);  // words that lie together
  // Of a row: those of a chunk, and what comes with them. Of a step that ends with a pause all, that none waits for its own load.
  static constexpr bool kWholeStep = kParts == 1 && !kFlows;
  static constexpr int kLoaded = gemm_sm90_dequant_loaded(kConfig);
  static constexpr int kHeld = kWholeStep ? kDequantWords : kLoaded < kChunkWords ? kChunkWords : kLoaded;
  using Words = GemmSm90DequantWords<kConfig, kChunkWords, kHeld>;
  // Sums of two groups: one is added while the next is made.
  static constexpr int kApart = kRoomy && kParts == 1 ? 2 : 1;
  // Turns of the loop side by side: scales that are asked for two steps ahead then move between no registers.
  static constexpr int kTurns = kRoomy && kWholeStep && kSums <= 8 ? 2 : 1;
  static constexpr int kGroups = gemm_sm90_dequant_groups(kConfig);
  using Factors = GemmSm90DequantFactors<kConfig>;
  using Wgmma = sm90::WgmmaOfRegisters<kConfig.dtype, kConfig.tokens>;
  static constexpr bool kByWarp = gemm_sm90_dequant_by_warp(kConfig);
  using WarpProducts = GemmSm90DequantWarpProducts<kConfig, kTile / kRanges>;

  // Whether a tile's last step has only the first half of its K, which words of each thread's first half are.
  class HalfStep {
   public:
    __device__ __forceinline__ explicit HalfStep(int64 k) {
      constexpr int kTileK = Layout::kTileK;
      const auto rest = static_cast<int>(k % kTileK);
      last_ = kFolds && rest > 0 && rest <= kTileK / 2 ? static_cast<int>(k / kTileK) : -1;
    }
    __device__ __forceinline__ bool ends(const SkinnySegment& s) const { return kFolds && s.k1 - 1 == last_; }

   private:
    int last_;  // step of K
  };

  // Step `k` of a tile, or the first 1 / kOf of it.
  template <int kOf>
  __device__ __forceinline__ void take_step(int k, DequantShift<kParts>& shift, float (&sum)[kParts][kSums],
                                            bool follows) {
    sm90::wait(shared_.full(ring_.stage), ring_.phase);
    Factors factors;
    if constexpr (kWhole) {
      load_whole(factors, k);
      factors.make_held(shift);
    } else if constexpr (kFolds) {
      load_codes(factors);
      factors.make(shift, sum);
    }
    if constexpr (kByWarp) {
      step_by_warp(factors, sum);
    } else {
      step<kOf>(factors, sum, follows);
    }
    ring_.advance();
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
  // Of the row of `half` of a part: where the first of its groups of a step stands.
  __device__ __forceinline__ int group_at(int part, int half) const {
    return groups_ + (part * kConfig.warpgroups * 64 + half * 8) * kGroups;
  }
  __device__ __forceinline__ void load_codes(Factors& codes) const {
#pragma unroll
    for (int i = 0; i < Factors::kAll; ++i) {
      const int at = group_at(Factors::part(i), Factors::half(i)) + i % Factors::kOfRow * Factors::kFar;
      codes.at(i) = shared_.codes(ring_.stage)[at];
    }
  }

  // The same where a tile's scales came whole, with its first stage. What all codes of a row want is found first, so that no sum
  // changes between its products.
  __device__ __forceinline__ void begin_whole(const SkinnySegment& s, DequantShift<kParts>& shift) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int half = kScaleHalves == 2 ? part : 0, rows = kScaleHalves == 2 ? 0 : part * kConfig.warpgroups * 64;
      rows_[part] =
          Whole::place(shared_, slot_.stage, half) + whole_.span(s, half).offset + groups_ + rows * whole_.row_bytes();
    }
    sm90::wait(shared_.full(ring_.stage), ring_.phase);
    unsigned most[kParts][2];
    find_most<256>(s, most);
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) largest = max(largest, most[i / 2][i % 2]);
    if (__any_sync(0xFFFFFFFF, largest == 255)) {
#pragma unroll
      for (int i = 0; i < kParts * 2; ++i) shift.is_number[i / 2][i % 2] = most[i / 2][i % 2] != 255;
      find_most<255>(s, most);
    }
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) {
      const int more = static_cast<int>(most[i / 2][i % 2]) - static_cast<int>(DequantShift<kParts>::kUnshifted);
      shift.of[i / 2][i % 2] = more > 0 ? more : 0;
    }
  }
  // The largest code below kBelow of each row of a thread.
  template <unsigned kBelow>
  __device__ __forceinline__ void find_most(const SkinnySegment& s, unsigned (&most)[kParts][2]) const {
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) most[i / 2][i % 2] = 0;
#pragma unroll 4
    for (int k = s.k0; k < s.k1; ++k) {
      Factors codes;
      load_whole(codes, k);
#pragma unroll
      for (int i = 0; i < Factors::kAll; ++i) {
        unsigned& to = most[Factors::part(i)][Factors::half(i)];
        to = max(to, codes.at(i) < kBelow ? codes.at(i) : 0);
      }
    }
    // The four threads of a row have different groups of it.
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) {
      unsigned& of_row = most[i / 2][i % 2];
      of_row = max(of_row, __shfl_xor_sync(0xFFFFFFFF, of_row, 1));
      of_row = max(of_row, __shfl_xor_sync(0xFFFFFFFF, of_row, 2));
    }
  }
  // Of groups that the rows do not have the next row's would be read.
  __device__ __forceinline__ void load_whole(Factors& codes, int step) const {
    const int first = step * kGroups, mine = static_cast<int>(threadIdx.x % 4) * Factors::kRunK / kConfig.group;
    const bool all = first + kGroups <= whole_.groups();
#pragma unroll
    for (int i = 0; i < Factors::kAll; ++i) {
      const int group = first + i % Factors::kOfRow * Factors::kFar;
      codes.at(i) = rows_[Factors::part(i)][Factors::half(i) * 8 * whole_.row_bytes() + group];
    }
    if (all) return;
#pragma unroll
    for (int i = 0; i < Factors::kAll; ++i) {
      if (first + mine + i % Factors::kOfRow * Factors::kFar >= whole_.groups()) codes.at(i) = 0;
    }
  }

  // sum += scale * apart.
  __device__ __forceinline__ static void add(const float (&apart)[kSums], const float (&scale)[2],
                                             float (&sum)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] = __fmaf_rn(apart[i], scale[i % 4 / 2], sum[i]);
  }

  __device__ __forceinline__ static int before(int stage) { return stage == 0 ? kConfig.stages - 1 : stage - 1; }
  // A warp has read all of a stage, if there is one; `loaded`: what it loaded last, and may still wait for.
  __device__ __forceinline__ void give_back(int stage, unsigned loaded, bool there = true) const {
    __syncwarp();
    sm90::arrive_after_where(there && threadIdx.x % 32 == 0, shared_.empty(stage), loaded);
  }

  // A stage, or the first 1 / kOf of its K; `follows` another one of the segment. A chunk is widened while the one before is multiplied,
  // and follows it without a pause where registers allow; then that one is waited for, whose fragments are written next. Where groups
  // are summed apart nothing is in flight at the end: over the end of a loop ptxas would not let sums that change places be added.
  template <int kOf>
  __device__ __forceinline__ void step(const Factors& factors, float (&sum)[kParts][kSums], bool follows) {
    constexpr int kOfRange = kTile / kChunk / kRanges / kOf, kUnits = kOfRange * kRanges * kParts;
    constexpr bool kFlowsOn = kFlows && kOf == 1;
    const unsigned base = sm90::shared_address(shared_.weights(ring_.stage));
    const unsigned long long tokens = sm90::descriptor<Major::kK>(sm90::shared_address(shared_.tokens(ring_.stage)), 0);
    unsigned words[2][kHeld], fragments[2][kChunk][4];
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
      words_.load(base, part, chunk, words);
      widen_chunk(words, chunk, part, factors, fragments[unit % 2]);
      if (unit > 0 && (!kRoomy || (kPromotes && kApart == 1 && begins))) sm90::wait_products<0>();
      if constexpr (kPromotes) {
        if (kApart == 1 && begins && unit > 0) add_group(unit - 1);
        if (begins) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            scale[group % kApart][half] = shared_.scales(ring_.stage)[group_at(part, half) + range];
          }
        }
        multiply(apart[group % kApart], fragments[unit % 2], tokens, chunk, !begins);
        if (unit > 0) sm90::wait_products<1>();
        if (kApart == 2 && begins && unit > 0) add_group(unit - 1);
      } else {
        multiply(sum[part], fragments[unit % 2], tokens, chunk, true);
        if (unit > 0 || kFlowsOn) sm90::wait_products<1>();
        if (kFlowsOn && unit == 0) give_back(before(ring_.stage), factors.last(), follows);
      }
    }
    if constexpr (kFlowsOn) return;
    sm90::wait_products<0>();
    // Words were widened for the products; the scales that were loaded last may still be on their way.
    unsigned loaded = 0;
    if constexpr (kPromotes) {
      const float(&last)[2] = scale[(kUnits - 1) / kOfRange % kApart];
      add_group(kUnits - 1);
      loaded = __float_as_uint(last[0]) | __float_as_uint(last[1]);
    } else {
      pin_all(sum);
    }
    give_back(ring_.stage, loaded);
  }
  // A stage by mma.sync, group by group: nothing is in flight that ptxas does not see, so it orders widening and products.
  __device__ __forceinline__ void step_by_warp(const Factors& factors, float (&sum)[kParts][kSums]) const {
    constexpr int kOfRange = kTile / kChunk / kRanges;
    const unsigned base = sm90::shared_address(shared_.weights(ring_.stage));
    WarpProducts products(sm90::shared_address(shared_.tokens(ring_.stage)));
    unsigned words[2][kHeld], fragments[kChunk][4];
#pragma unroll
    for (int range = 0; range < kRanges; ++range) {
      products.load(range);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        float apart[kSums] = {}, scale[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) scale[half] = shared_.scales(ring_.stage)[group_at(part, half) + range];
#pragma unroll
        for (int i = 0; i < kOfRange; ++i) {
          const int chunk = range * kOfRange + i;
          words_.load(base, part, chunk, words);
          widen_chunk(words, chunk, part, factors, fragments);
#pragma unroll
          for (int j = 0; j < kChunk; ++j) products.multiply(apart, fragments[j], i * kChunk + j);
        }
        add(apart, scale, sum[part]);
      }
    }
    // Sums of both rows come of all that was loaded.
    unsigned last = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) last |= __float_as_uint(sum[part][0]) | __float_as_uint(sum[part][2]);
    give_back(ring_.stage, last);
  }
  __device__ __forceinline__ void widen_chunk(const unsigned (&words)[2][kHeld], int chunk, int part,
                                              const Factors& factors, unsigned (&fragments)[kChunk][4]) const {
    const int first = chunk * kChunkWords % kHeld;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const int word = i / kOfWord;
      constexpr WidenOperands kPlain = widen_operands<kConfig.weight, kConfig.dtype>();
      WidenOperands operands[2] = {kPlain, kPlain};
      if constexpr (kFolds) {
        const int code = (chunk * kChunkWords + word) / kRun;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          operands[half].even = operands[half].odd = factors.of[part][half][code];
        }
      }
      if constexpr (kZeroed) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          operands[half] = shared_.operands(ring_.stage)[group_at(part, half) + chunk / (kTile / kChunk / kRanges)];
        }
      }
      const unsigned both[2] = {words[0][first + word], words[1][first + word]};
      if (i % kOfWord == 0) {
        Words::template widen<0>(both, operands, fragments[i]);
      } else if constexpr (kOfWord == 2) {
        Words::template widen<1>(both, operands, fragments[i]);
      }
    }
    if constexpr (!kByWarp) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sm90::pin(fragments[i]);
    }
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
  const Whole whole_;
  const HalfStep half_step_;
  const Words words_;
  sm90::Ring<kConfig.stages> ring_;
  sm90::Ring<kDequantScaleSlots> slot_;
  const unsigned char* rows_[kParts];  // whole scales: of this thread's upper rows
  int groups_;                         // of a stage's scales: where this thread's upper row begins
};

}  // namespace tilewright
