// SPDX-License-Identifier: MIT
// Shared memory of gemm_sm90_dequant, its barriers, and where it stands in its work.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_work.cuh"
#include "tile/portable/widen_weights.cuh"
#include "tile/sm90/barrier.cuh"

namespace tilewright {

// Stages of weights: rows of 128 bytes, swizzled, or of each 64 rows their fragments. Stages of A: for each 64 values of K, in the order in which the weights
// have them, rows of 128 bytes of all tokens, swizzled. Scales that come whole. Sums of other parts. A warp's box, scales of stages, the tokens' factors, barriers.
template <GemmSm90DequantConfig kConfig>
struct GemmSm90DequantLayout {
  static constexpr int kTileK = gemm_sm90_dequant_tile_k(kConfig.weight);
  static constexpr int kWeightBytes = gemm_sm90_dequant_weight_bytes(kConfig);
  static constexpr int kTokenBytes = gemm_sm90_dequant_token_bytes(kConfig);
  static constexpr int kScaleBytes = gemm_sm90_dequant_scale_bytes(kConfig);
  static constexpr int kOperandBytes = gemm_sm90_dequant_operand_bytes(kConfig);
  static constexpr bool kInOrder = gemm_sm90_dequant_in_order(kConfig);
  static constexpr bool kMeet = gemm_sm90_dequant_parts_meet(kConfig);
  static constexpr bool kFolds = narrow_weights_fold(kConfig), kPromotes = narrow_weights_promote(kConfig);
  static constexpr int kSliceBytes = kConfig.tokens * kSkinnyRowBytes;   // of A, 64 values of K
  static constexpr int kGroupStage = kFragmentGroup * kSkinnyRowBytes;   // of 64 rows of packed weights
  static constexpr int kGroupBytes = kGroupStage / 2;                    // of a fragment's K
  static constexpr int kThreads = kConfig.warpgroups * 128;              // that multiply
  static constexpr int kParts = kConfig.rows / 64 / kConfig.warpgroups;  // of 64 rows a warpgroup

  unsigned char* base;
  __device__ explicit GemmSm90DequantLayout(unsigned char* memory) : base(memory) {}
  __device__ unsigned char* weights(int stage) const { return base + stage * kWeightBytes; }
  __device__ unsigned char* tokens(int stage) const { return weights(kConfig.stages) + stage * kTokenBytes; }
  __device__ unsigned char* scale_rows(int slot) const {
    return tokens(kConfig.stages) + slot * gemm_sm90_dequant_scale_slot_bytes(kConfig);
  }
  // Of the other parts, where these meet.
  __device__ uint4* met_sums() const { return reinterpret_cast<uint4*>(scale_rows(kDequantScaleSlots)); }
  __device__ unsigned char* box(int warp) const {
    constexpr GemmSm90SkinnyConfig kSums = gemm_sm90_dequant_sums(kConfig);
    return scale_rows(kDequantScaleSlots) + gemm_sm90_skinny_met_bytes(kSums) +
           warp * gemm_sm90_skinny_box_bytes(kSums);
  }
  // [row, group of the step]: scales as f32, or the codes of scales that go along; operands of zero points.
  __device__ float* scales(int stage) const { return reinterpret_cast<float*>(codes(stage)); }
  __device__ unsigned char* codes(int stage) const { return box(4 * kConfig.warpgroups) + stage * kScaleBytes; }
  __device__ WidenOperands* operands(int stage) const {
    return reinterpret_cast<WidenOperands*>(codes(kConfig.stages) + stage * kOperandBytes);
  }
  __device__ float* factors() const { return reinterpret_cast<float*>(operands(kConfig.stages)); }
  __device__ sm90::Barrier& full(int stage) const {
    return reinterpret_cast<sm90::Barrier*>(factors() + kConfig.tokens)[stage];
  }
  __device__ sm90::Barrier& empty(int stage) const { return full(kConfig.stages + stage); }
  // Whole scales in a slot have been read. They are there when the first stage of their tile is.
  __device__ sm90::Barrier& scales_read(int slot) const { return empty(kConfig.stages + slot); }
  __device__ sm90::Barrier& met() const { return scales_read(kDequantScaleSlots); }
};

// Step by step through all segments of a block.
template <class Work>
class DequantSteps {
 public:
  __device__ __forceinline__ explicit DequantSteps(const Work& work) : work_(work) {
    there_ = work_.take(segment);
    k = there_ ? segment.k0 : 0;
  }
  __device__ __forceinline__ bool there() const { return there_; }
  __device__ __forceinline__ void advance() {
    if (++k < segment.k1) return;
    there_ = work_.take(segment);
    if (there_) k = segment.k0;
  }

  SkinnySegment segment;
  int k;

 private:
  Work work_;
  bool there_;
};

}  // namespace tilewright
