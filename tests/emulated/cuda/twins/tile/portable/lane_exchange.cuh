// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/lane_exchange.cuh.
#pragma once

#include "emulated/cuda/host_block.hpp"

namespace tilewright {

inline float lane_xor(float x, unsigned distance) {
  const auto lane = static_cast<size_t>(emulated::lane());
  emulated::warp_rows()[lane][0] = __builtin_bit_cast(unsigned, x);
  emulated::warp_rows()[lane][1] = distance;
  emulated::meet_warp([](emulated::WarpRows& rows) {
    const emulated::WarpRows before = rows;
    for (size_t l = 0; l < rows.size(); ++l) rows[l][0] = before[l ^ before[l][1]][0];
  });
  return __builtin_bit_cast(float, emulated::warp_rows()[lane][0]);
}

}  // namespace tilewright
