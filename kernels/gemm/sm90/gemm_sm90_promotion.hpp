// SPDX-License-Identifier: MIT
// How the kernels of sm_90 sum products of 8-bit floats (tile/sm90/promote.cuh). Freestanding.
#pragma once

#include "gemm/gemm_scale_args.hpp"

namespace tilewright {

enum class Promotion : unsigned char {
  kNone,    // in the tensor cores, over all of K
  kSums,    // each tile of K apart, then added in f32
  kScaled,  // the same, multiplied by the tile's scales first: rows of A by 128 of K, blocks of 128 x 128 of B
};
inline constexpr const char* kPromotionNames[] = {"none", "sums", "scaled"};
constexpr const char* const* enum_names(Promotion) { return kPromotionNames; }
constexpr int enum_count(Promotion) { return 3; }

// What shares a scale of B along N, and of both along K: a tile of K of 8-bit types.
inline constexpr int kPromotedScaleBlock = 128;

// Null, or why a kernel cannot promote so.
constexpr const char* promotion_refusal(Promotion promote, DType dtype) {
  return promote != Promotion::kNone && !is_ocp_f8(dtype) ? "promote: dtype is no 8-bit float" : nullptr;
}

}  // namespace tilewright
