// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/warp_sum.cuh.
#pragma once

#include <cstring>

#include "emulated/cuda/host_block.hpp"

namespace tilewright {

inline int add_byte_products(int sum, unsigned x, unsigned y) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<signed char>(x >> i) * static_cast<signed char>(y >> i);
  return sum;
}

template <class Sum>
Sum warp_sum(Sum x) {
  const auto lane = static_cast<size_t>(emulated::lane());
  emulated::warp_rows()[lane][0] = __builtin_bit_cast(unsigned, x);
  emulated::meet_warp([](emulated::WarpRows& rows) {
    for (size_t distance = 16; distance > 0; distance /= 2) {
      const emulated::WarpRows before = rows;
      for (size_t l = 0; l < 32; ++l) {
        const Sum sum = __builtin_bit_cast(Sum, before[l][0]) + __builtin_bit_cast(Sum, before[l ^ distance][0]);
        rows[l][0] = __builtin_bit_cast(unsigned, sum);
      }
    }
  });
  return __builtin_bit_cast(Sum, emulated::warp_rows()[lane][0]);
}

}  // namespace tilewright
