// SPDX-License-Identifier: MIT
// Scales and zero points of the weights' groups in gemm_sm90_dequant: warps of their own bring them to shared memory, stage by stage, as
// those who multiply want them.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/portable/scale_bits.cuh"
#include "tile/portable/widen_weights.cuh"
#include "tile/sm90/barrier.cuh"
#include "tile/sm90/ring.cuh"

namespace tilewright {

// A lane has some rows of the weights, and asks for a batch of steps at once: scales of a row that lie side by side come
// with one load.
template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantScales {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;

  __device__ __forceinline__ GemmSm90DequantScales(const GemmSm90DequantArgs& args, const Layout& shared)
      : scale_(args.product.scale.b),
        zero_(args.zero_b),
        gemm_(args.product.gemm),
        shared_(shared),
        shift_(scale_.outer == 1 ? 0 : 7),
        scales_together_(lies_together<kScaleBits>(scale_)),
        zeros_together_(kZeroed && lies_together<kZeroBits>(zero_)) {}

  template <class Work>
  __device__ __forceinline__ void bring(Work work) const {
    sm90::Ring<kConfig.stages> ring;
    Batches<Work> next(work);
    Held held, now;
    load(next, held);
    SkinnySegment s;
    while (work.take(s)) {
#pragma unroll 1
      for (int first = s.k0 / kBatch * kBatch; first < s.k1; first += kBatch) {
        now = held;
        next.advance();
        load(next, held);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          if (first + i < s.k0 || first + i >= s.k1) continue;
          sm90::wait(shared_.empty(ring.stage), ring.phase ^ 1);
          store(ring.stage, i, now);
          sm90::arrive(shared_.full(ring.stage));
          ring.advance();
        }
      }
    }
  }

 private:
  static constexpr int kGroups = gemm_sm90_dequant_groups(kConfig);                         // of a step
  static constexpr int kRows = kConfig.rows / 32 / gemm_sm90_dequant_scale_warps(kConfig);  // of a lane
  static constexpr bool kZeroed = kConfig.zero != DType::kNone;
  static constexpr int kScaleBits = dtype_bits(kConfig.scale), kZeroBits = kZeroed ? dtype_bits(kConfig.zero) : 8;
  // Steps of a batch: at most four, and 16 bytes of a row's scales, or what registers hold.
  static constexpr int kBytes = kGroups * kScaleBits / 8;
  static constexpr int kBatch = kBytes >= 16 ? 1 : kBytes >= 8 || kRows > 6 ? 2 : 4;
  static constexpr int kOfBatch = kGroups * kBatch;  // groups
  static constexpr int words(int bits) { return (kOfBatch * bits + 31) / 32; }

  struct Held {
    unsigned scales[kRows][words(kScaleBits)], zeros[kRows][words(kZeroBits)];
  };

  // Batch by batch through all segments.
  template <class Work>
  class Batches {
   public:
    __device__ __forceinline__ explicit Batches(const Work& work) : work_(work) { take(); }
    __device__ __forceinline__ void advance() {
      if (!there) return;
      step += kBatch;
      if (step >= segment.k1) take();
    }
    SkinnySegment segment;
    int step;
    bool there;

   private:
    __device__ __forceinline__ void take() {
      there = work_.take(segment);
      step = there ? segment.k0 / kBatch * kBatch : 0;
    }
    Work work_;
  };

  // Whether a row's values of a batch lie side by side, and begin where one load may.
  template <int kBits>
  __device__ __forceinline__ static bool lies_together(const GemmBlockScale& of) {
    constexpr int kOfOne = kOfBatch * kBits / 8, kUnit = kOfOne < 16 ? kOfOne : 16;
    const auto begins = [](int64 values) { return values * kBits / 8 % kUnit == 0 && values * kBits % 8 == 0; };
    return of.stride_k == 1 && reinterpret_cast<int64>(of.data) % kUnit == 0 && begins(of.stride_outer) &&
           begins(of.stride_batch);
  }

  // The `i`-th row of this lane.
  __device__ __forceinline__ static int row(int i) {
    constexpr int kLanes = gemm_sm90_dequant_scale_warps(kConfig) * 32;
    return (static_cast<int>(threadIdx.x) - Layout::kThreads - 32) % kLanes + kLanes * i;
  }
  // The column of B that a row of a stage is, or -1.
  __device__ __forceinline__ int64 column(int tile, int row) const {
    constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
    constexpr int kColumns = kSeparated ? kConfig.rows / 2 : kConfig.rows;
    const int64 half = kSeparated ? gemm_.n / 2 : 0;
    const int64 n = static_cast<int64>(tile) * kColumns + row % kColumns;
    return n < (kSeparated ? half : gemm_.n) ? n + (row >= kColumns ? half : 0) : -1;
  }

  // What is not there is 0, of which no value comes: nothing is read.
  template <class Work>
  __device__ __forceinline__ void load(const Batches<Work>& from, Held& to) const {
    const int first = from.step * kGroups;  // group
    const auto groups = static_cast<int>((gemm_.k + kConfig.group - 1) / kConfig.group);
    const int count = from.there ? (groups - first < kOfBatch ? groups - first : kOfBatch) : 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int64 n = from.there ? column(from.segment.tile, row(i)) : -1;
      load_row<kScaleBits>(scale_, scales_together_, from.segment.batch, n, first, count, to.scales[i]);
      if constexpr (kZeroed) {
        load_row<kZeroBits>(zero_, zeros_together_, from.segment.batch, n, first, count, to.zeros[i]);
      }
    }
  }
  template <int kBits>
  __device__ __forceinline__ void load_row(const GemmBlockScale& from, bool together, int batch, int64 n, int first,
                                           int count, unsigned (&to)[words(kBits)]) const {
#pragma unroll
    for (int word = 0; word < words(kBits); ++word) to[word] = 0;
    if (n < 0) return;
    const auto* const data = static_cast<const char*>(from.data);
    const int64 at = batch * from.stride_batch + (n >> shift_) * from.stride_outer + first * from.stride_k;
    if (together && count == kOfBatch) return load_together<kOfBatch * kBits / 8>(data + at * kBits / 8, to);
    // Rows of bytes that no load of several may begin at: in twos.
    if (kBits == 8 && kOfBatch > 1 && from.stride_k == 1 && count == kOfBatch &&
        reinterpret_cast<int64>(data + at) % 2 == 0) {
      const auto* const twos = reinterpret_cast<const unsigned short*>(data + at);
#pragma unroll
      for (int i = 0; i < kOfBatch / 2; ++i) to[i / 2] |= static_cast<unsigned>(twos[i]) << i % 2 * 16;
      return;
    }
#pragma unroll
    for (int g = 0; g < kOfBatch; ++g) {
      if (g >= count) continue;
      const int64 one = at + g * from.stride_k;
      unsigned bits;
      if constexpr (kBits == 4) {
        bits = load_bits<8>(data + (one >> 1)) >> (one & 1) * 4 & 15u;
      } else {
        bits = load_bits<kBits>(data + one * kBits / 8);
      }
      to[g * kBits / 32] |= bits << g * kBits % 32;
    }
  }
  template <int kOfOne, int kWords>
  __device__ __forceinline__ static void load_together(const char* data, unsigned (&to)[kWords]) {
    if constexpr (kOfOne == 2) {
      to[0] = *reinterpret_cast<const unsigned short*>(data);
    } else if constexpr (kOfOne == 4) {
      to[0] = *reinterpret_cast<const unsigned*>(data);
    } else if constexpr (kOfOne == 8) {
      const uint2 two = *reinterpret_cast<const uint2*>(data);
      to[0] = two.x, to[1] = two.y;
    } else {
      static_assert(kOfOne % 16 == 0);
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(data + 4 * i);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
      }
    }
  }
  template <int kBits, int kWords>
  __device__ __forceinline__ static unsigned of_group(const unsigned (&words)[kWords], int g) {
    constexpr unsigned kMask = kBits == 32 ? 0xFFFFFFFFu : (1u << kBits % 32) - 1;
    return words[g * kBits / 32] >> g * kBits % 32 & kMask;
  }

  // Of step `i` of a batch.
  __device__ __forceinline__ void store(int stage, int i, const Held& from) const {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int at = row(j) * kGroups;
      if constexpr (Layout::kFolds && kGroups == 8) {
        // As they came.
        *reinterpret_cast<uint2*>(shared_.codes(stage) + at) = {from.scales[j][2 * i], from.scales[j][2 * i + 1]};
      } else if constexpr (Layout::kFolds) {
        Together<unsigned char> codes;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          codes.of[g] = static_cast<unsigned char>(of_group<kScaleBits>(from.scales[j], i * kGroups + g));
        }
        *reinterpret_cast<Together<unsigned char>*>(shared_.codes(stage) + at) = codes;
      } else {
        Together<float> scales;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          scales.of[g] = widen_scale<kConfig.scale>(of_group<kScaleBits>(from.scales[j], i * kGroups + g));
        }
        *reinterpret_cast<Together<float>*>(shared_.scales(stage) + at) = scales;
      }
      if constexpr (kZeroed) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          auto zero = static_cast<int>(of_group<kZeroBits>(from.zeros[j], i * kGroups + g));
          // i4 and i8 have a sign.
          if (kConfig.zero != DType::kU4) zero = (zero ^ 1 << (kZeroBits - 1)) - (1 << (kZeroBits - 1));
          shared_.operands(stage)[at + g] = zeroed_operands<kConfig.weight, kConfig.dtype>(zero);
        }
      }
    }
  }
  // A row's of a step, stored at once.
  template <class T>
  struct alignas(kGroups * sizeof(T) < 16 ? kGroups * sizeof(T) : 16) Together {
    T of[kGroups];
  };

  const GemmBlockScale& scale_;
  const GemmBlockScale& zero_;
  const GemmArgs& gemm_;
  const Layout& shared_;
  const int shift_;  // 2^shift columns, one or 128, have one scale, and one zero point
  const bool scales_together_, zeros_together_;
};

}  // namespace tilewright
