// SPDX-License-Identifier: MIT
// The arguments of a product as a tile of some of its rows sees them.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"

namespace tilewright {

// From row `row` of A and D on: `rows` are all there are, and what goes by row begins with them.
__device__ __forceinline__ GemmSm90SkinnyArgs gemm_sm90_skinny_view(const GemmSm90SkinnyArgs& all, int64 row,
                                                                    int rows) {
  GemmSm90SkinnyArgs view = all;
  GemmEpilogueArgs& e = view.gemm.epilogue;
  view.gemm.m = rows;
  e.d = static_cast<char*>(e.d) + row * e.stride_d_m * (e.d_dtype == DType::kF32 ? 4 : 2);
  if (e.scale_a.data != nullptr) {
    e.scale_a.data =
        static_cast<const char*>(e.scale_a.data) + row * e.scale_a.stride_m * (e.scale_a.dtype == DType::kF32 ? 4 : 2);
  }
  return view;
}

}  // namespace tilewright
