// SPDX-License-Identifier: MIT
// Four values as 8-bit floats, in one word, the first in the lowest byte. In integer arithmetic: every target has both flavours.
#pragma once

#include "tile/common/quantise.hpp"

namespace tilewright {

template <class Format>
__device__ __forceinline__ unsigned narrow_f8x4(float a, float b, float c, float d) {
  return narrow_many<Format>(a) | narrow_many<Format>(b) << 8 | narrow_many<Format>(c) << 16 |
         narrow_many<Format>(d) << 24;
}

}  // namespace tilewright
