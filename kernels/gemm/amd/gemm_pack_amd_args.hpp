// SPDX-License-Identifier: MIT
// What host and gemm_pack_amd share. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

inline constexpr int kPackAmdThreads = 256, kPackAmdLdsBytes = kPackAmdThreads * 4;

}  // namespace tilewright
