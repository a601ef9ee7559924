// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/convert.cuh.
#pragma once

#include "tile/common/numeric.hpp"

namespace tilewright {

inline unsigned short narrow_bf16(float value) { return narrow<bf16>(value).bits; }
inline unsigned short narrow_f16(float value) { return narrow<f16>(value).bits; }
inline unsigned pack_bf16(float low, float high) { return narrow_bf16(low) | unsigned{narrow_bf16(high)} << 16; }
inline unsigned pack_f16(float low, float high) { return narrow_f16(low) | unsigned{narrow_f16(high)} << 16; }
inline float widen_bf16(unsigned bits) { return __uint_as_float(bits << 16); }
inline float widen_bf16_high(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }
inline float widen_f16(unsigned bits) { return widen(f16{static_cast<unsigned short>(bits)}); }

}  // namespace tilewright
