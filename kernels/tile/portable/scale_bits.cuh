// SPDX-License-Identifier: MIT
// A scale of any type: its bits from memory, and what they are worth.
#pragma once

#include "tile/portable/convert.cuh"
#include "tile/portable/widen_f8.cuh"

namespace tilewright {

// 8, 16 or 32.
template <int kBits>
__device__ __forceinline__ unsigned load_bits(const char* at) {
  if constexpr (kBits == 32) return *reinterpret_cast<const unsigned*>(at);
  if constexpr (kBits == 16) return *reinterpret_cast<const unsigned short*>(at);
  return *reinterpret_cast<const unsigned char*>(at);
}
template <DType kType>
__device__ __forceinline__ unsigned load_scale_bits(const char* at) {
  return load_bits<dtype_bits(kType)>(at);
}
template <DType kType>
__device__ __forceinline__ float widen_scale(unsigned bits) {
  if constexpr (kType == DType::kF32) return __uint_as_float(bits);
  if constexpr (kType == DType::kBf16) return widen_bf16(bits);
  if constexpr (kType == DType::kF16) return widen_f16(bits);
  if constexpr (kType == DType::kE8M0) {
    return __uint_as_float(bits == 0 ? 0x00400000u : bits == 255 ? 0x7FFFFFFFu : bits << 23);
  }
  if constexpr (kType == DType::kF8E4M3) return widen_f16(widen_e4m3(bits).low & 0xFFFFu);
}

}  // namespace tilewright
