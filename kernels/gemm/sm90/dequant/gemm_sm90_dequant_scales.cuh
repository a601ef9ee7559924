// SPDX-License-Identifier: MIT
// Scales of the weights' groups in gemm_sm90_dequant: a thread loads those of its rows, some steps ahead.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/portable/scale_bits.cuh"
#include "tile/portable/widen_weights.cuh"
#include "tile/sm90/fresh_thread.cuh"

namespace tilewright {

// Of a thread, for the rows r and r + 8 of each part of its warpgroup's rows.
template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantScales {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;
  static constexpr bool kFolds = gemm_sm90_dequant_folds(kConfig);
  // Values of K of a step of which a thread wants the scales, and how many these are.
  static constexpr int kReach = kFolds ? Layout::kTileK / 4 : Layout::kTileK;
  static constexpr int kCount = kConfig.group == 0 ? 0 : kReach < kConfig.group ? 1 : kReach / kConfig.group;
  static constexpr int kAhead = kCount > 2 ? 1 : 2;  // steps
  static constexpr bool kZeroed = kConfig.zero != DType::kNone;

  struct Step {
    unsigned bits[Layout::kParts][2][kCount > 0 ? kCount : 1];
    unsigned zeros[Layout::kParts][2][kZeroed ? kCount : 1];
  };

  __device__ explicit GemmSm90DequantScales(const GemmSm90DequantArgs& args)
      : args_(args.product), zero_(args.zero_b) {}

  __device__ __forceinline__ void begin(const SkinnySegment& s) {
    const auto thread = static_cast<int>(sm90::fresh_thread());
    const int row = gemm_sm90_dequant_row(kConfig, thread % 32 / 4);
    constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
    constexpr int kColumns = kSeparated ? kConfig.rows / 2 : kConfig.rows;
    const int first = (s.k0 * Layout::kTileK + (kFolds ? thread % 4 * kReach : 0)) / kConfig.group;
    const auto groups = static_cast<int>((args_.gemm.k + kConfig.group - 1) / kConfig.group);
#pragma unroll
    for (int part = 0; part < Layout::kParts; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        bool there;
        int64 n = static_cast<int64>(s.tile) * kColumns + thread / 32 * 16 + row + half * 8;
        if (kSeparated) {
          there = n < args_.gemm.n / 2;
          n += part * (args_.gemm.n / 2);
        } else {
          n += part * kConfig.warpgroups * 64;
          there = n < args_.gemm.n;
        }
        const GemmBlockScale& b = args_.scale.b;
        const int64 index = s.batch * b.stride_batch + n * b.stride_outer + first * b.stride_k;
        next_[part][half] = static_cast<const char*>(b.data) + index * kBytes;
        limit_[part][half] = there ? groups : 0;
        if constexpr (kZeroed) {
          next_zero_[part][half] = s.batch * zero_.stride_batch + n * zero_.stride_outer + first * zero_.stride_k;
        }
      }
    }
    first_ = first;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(steps_[i]);
  }
  // Of the next step; the one kAhead steps on is asked for.
  __device__ __forceinline__ Step take() {
    const Step now = steps_[0];
    if constexpr (kAhead > 1) steps_[0] = steps_[1];
    load(steps_[kAhead - 1]);
    return now;
  }
  // Of the step that was taken last.
  __device__ __forceinline__ int zero(const Step& step, int part, int half, int i) const {
    const unsigned bits = step.zeros[part][half][i];
    if constexpr (kConfig.zero == DType::kI8) return static_cast<signed char>(bits);
    const auto at = static_cast<unsigned>(next_zero_[part][half]) +
                    (i - (kAhead + 1) * kOfStep) * static_cast<unsigned>(zero_.stride_k);
    const auto nibble = static_cast<int>(at % 2 == 0 ? bits & 15 : bits >> 4);
    return kConfig.zero == DType::kI4 ? (nibble ^ 8) - 8 : nibble;
  }

 private:
  static constexpr int kBytes = dtype_bits(kConfig.scale) / 8;
  static constexpr int kOfStep = kConfig.group == 0 ? 0 : Layout::kTileK / kConfig.group;  // groups

  // What is not there is 0, of which no value comes: nothing is read.
  __device__ __forceinline__ void load(Step& step) {
    const int64 stride = args_.scale.b.stride_k * kBytes;
#pragma unroll
    for (int part = 0; part < Layout::kParts; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const char* at = next_[part][half];
#pragma unroll
        for (int i = 0; i < kCount; ++i, at += stride) {
          step.bits[part][half][i] = 0;
          if (first_ + i < limit_[part][half]) step.bits[part][half][i] = load_scale_bits<kConfig.scale>(at);
        }
        next_[part][half] += kOfStep * stride;
        if constexpr (kZeroed) {
          const auto* const data = static_cast<const unsigned char*>(zero_.data);
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            const int64 at = next_zero_[part][half] + i * zero_.stride_k;
            step.zeros[part][half][i] = 0;
            if (first_ + i < limit_[part][half]) {
              step.zeros[part][half][i] = data[dtype_bits(kConfig.zero) == 4 ? at >> 1 : at];
            }
          }
          next_zero_[part][half] += kOfStep * zero_.stride_k;
        }
      }
    }
    first_ += kOfStep;
  }

  const GemmSm90SkinnyArgs& args_;
  const GemmBlockScale& zero_;
  const char* next_[Layout::kParts][2];  // of the next step to be asked for: its first scale
  int64 next_zero_[Layout::kParts][2];   // the same of zero points: its index
  int limit_[Layout::kParts][2];         // groups that are there
  int first_;                            // group of that scale
  Step steps_[kAhead];
};

// e8m0 scales that weights take along, as factors of bf16. A sum is kept 2^-shift of its value, so that 2^126 times the
// scale, which e2m1 as bf16 wants, stays finite: nearly always the shift is 0.
template <int kParts>
struct DequantShift {
  int of[kParts][2] = {};

  // The largest code whose factor is finite.
  __device__ __forceinline__ bool holds(int part, int half, unsigned code) const {
    return static_cast<int>(code) <= 128 + of[part][half] || code == 255;
  }
  __device__ __forceinline__ unsigned factor(int part, int half, unsigned code) const {
    const int exponent = max(static_cast<int>(code) + kE2M1Bf16Shift - of[part][half], 0);
    return code == 255 ? 0x7FFF7FFFu : static_cast<unsigned>(exponent) * 0x00800080u;
  }
};

}  // namespace tilewright
