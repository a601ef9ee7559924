// SPDX-License-Identifier: MIT
// What a block of grouped_gemm_generic_gpu keeps in shared memory. Host and kernel share it. Freestanding.
#pragma once

#include "gemm/gpu/gemm_generic_shape.hpp"
#include "grouped_gemm/grouped_gemm_args.hpp"

namespace tilewright {

struct alignas(16) GroupedGenericState {
  GenericTile tile;
  GemmScaledArgs scaled;  // the call's, with the sizes of the group at hand
  GroupNumbers numbers[kGenericThreads];
  int64 a_rows[kGenericTile], d_rows[kGenericTile];  // that indices name, -1: none
  int clamped[kGenericThreads];
};
inline constexpr int kGroupedGenericBytes = sizeof(GroupedGenericState);

}  // namespace tilewright
