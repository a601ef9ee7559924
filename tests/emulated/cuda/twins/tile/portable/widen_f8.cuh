// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/widen_f8.cuh.
#pragma once

#include "tile/common/numeric.hpp"

namespace tilewright {

struct F16Pairs {
  unsigned low, high;  // elements 0 and 1, 2 and 3
};

template <DType kType>
F16Pairs widen_f8(unsigned word) {
  using Eighth = std::conditional_t<kType == DType::kF8E4M3, e4m3, e5m2>;
  unsigned halves[4];
  for (int i = 0; i < 4; ++i) {
    halves[i] = narrow<f16>(widen(Eighth{static_cast<unsigned char>(word >> (8 * i))})).bits;
  }
  return {halves[0] | halves[1] << 16, halves[2] | halves[3] << 16};
}
inline F16Pairs widen_e4m3(unsigned word) { return widen_f8<DType::kF8E4M3>(word); }
inline F16Pairs widen_e5m2(unsigned word) { return widen_f8<DType::kF8E5M2>(word); }

}  // namespace tilewright
