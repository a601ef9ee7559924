// SPDX-License-Identifier: MIT
// A lane's logits of 16 bits as they lie, two a word, for a sieve among logits: comparisons take two.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/gpu/row.cuh"
#include "tile/portable/pair_math.cuh"

namespace tilewright {

template <MoeRoutingGpuConfig kConfig>
class RouterWords {
 public:
  __device__ __forceinline__ RouterWords(const char* row, int lane) : row_(row) {
#pragma unroll
    for (int j = 0; j < kConfig.slots / kRowPiece; ++j) {
      const Vector4<unsigned> four =
          load_vector4(reinterpret_cast<const unsigned*>(row) + (j * kLanes + lane) * kRowPiece / 2);
      unsigned* const words = words_ + j * kRowPiece / 2;
      words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    }
    // NaN is no larger than anything.
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      largest_[p] = kWorst;
#pragma unroll
      for (int w = p; w < kWords; w += kParts) largest_[p] = larger_pairs<kConfig.x>(words_[w], largest_[p]);
    }
  }

  // The largest logit of all, and 1 over the sum of e^(x - most).
  template <class Exponential>
  __device__ __forceinline__ void find_softmax(Exponential&& exponential, float& most, float& by) const {
    unsigned all = largest_[0];
#pragma unroll
    for (int p = 1; p < kParts; ++p) all = larger_pairs<kConfig.x>(all, largest_[p]);
#pragma unroll
    for (unsigned distance = 1; distance < kLanes; distance *= 2) {
      all = larger_pairs<kConfig.x>(all, exchanged(all, distance));
    }
    most = at_least(at_least(low(all), high(all)), kLeastValue);
    float sums[2] = {0, 0};
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      sums[0] = __fadd_rn(sums[0], exponential(__fadd_rn(low(words_[w]), -most)));
      sums[1] = __fadd_rn(sums[1], exponential(__fadd_rn(high(words_[w]), -most)));
    }
    by = reciprocal_approx(lanes_sum<kLanes>(__fadd_rn(sums[0], sums[1])));
  }

  // The `few`-th largest of what is largest in each part: the least of those that less than `few` are larger than.
  __device__ __forceinline__ bool bounds() {
    unsigned above[kParts][2] = {};
#pragma unroll
    for (unsigned distance = 0; distance < kLanes; ++distance) {
#pragma unroll
      for (int q = 0; q < kParts; ++q) {
        const unsigned other = distance == 0 ? largest_[q] : exchanged(largest_[q], distance);
        const unsigned bits = kBits << (static_cast<int>(distance) * kParts + q);
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          above[p][0] |= ~at_least_pairs<kConfig.x>(__byte_perm(largest_[p], 0, 0x1010), other) & bits;
          above[p][1] |= ~at_least_pairs<kConfig.x>(__byte_perm(largest_[p], 0, 0x3232), other) & bits;
        }
      }
    }
    unsigned least = kMost;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const unsigned even = __popc(above[p][0]) < kConfig.few ? largest_[p] : kMost;
      const unsigned odd = __popc(above[p][1]) < kConfig.few ? largest_[p] : kMost;
      least = smaller_pairs<kConfig.x>(least, (even & 0xFFFFu) | (odd & 0xFFFF0000u));
    }
#pragma unroll
    for (unsigned distance = 1; distance < kLanes; distance *= 2) {
      least = smaller_pairs<kConfig.x>(least, exchanged(least, distance));
    }
    least_ = smaller_pairs<kConfig.x>(least, __byte_perm(least, 0, 0x1032));
    return least_ != kWorst;
  }
  // Even logits in the lower half, odd ones in the upper one.
  __device__ __forceinline__ unsigned mask() const {
    unsigned mine = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) mine |= at_least_pairs<kConfig.x>(words_[w], least_) & (kBits << w);
    return mine;
  }
  __device__ __forceinline__ static int slot(int bit) { return bit % 16 * 2 + bit / 16; }
  __device__ __forceinline__ float value(int expert) const {
    return widen_16(kBf16, reinterpret_cast<const unsigned short*>(row_)[expert]);
  }

 private:
  static constexpr bool kBf16 = kConfig.x == DType::kBf16;
  static constexpr int kLanes = kConfig.lanes, kWords = kConfig.slots / 2;
  static constexpr int kParts = kConfig.sieve / 2;  // pairs of parts
  static constexpr unsigned kBits = 0x10001u;       // of a word's halves
  static constexpr unsigned kWorst = kBf16 ? 0xFF80FF80u : 0xFC00FC00u, kMost = kBf16 ? 0x7F807F80u : 0x7C007C00u;

  __device__ __forceinline__ static float low(unsigned word) { return widen_16(kBf16, word & 0xFFFFu); }
  __device__ __forceinline__ static float high(unsigned word) { return widen_16(kBf16, word >> 16); }
  __device__ __forceinline__ static unsigned exchanged(unsigned x, unsigned distance) {
    return __shfl_xor_sync(0xFFFFFFFFu, x, static_cast<int>(distance));
  }

  const char* row_;
  unsigned words_[kWords];
  unsigned largest_[kParts];  // in the even places of each so many-th word, and in the odd ones
  unsigned least_ = kWorst;   // the bound, twice
};

}  // namespace tilewright
