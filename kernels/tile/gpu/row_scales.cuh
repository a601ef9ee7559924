// SPDX-License-Identifier: MIT
// Scales that are found from the largest magnitude of what shares one. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row_codes.cuh"
#include "tile/gpu/row_encode.cuh"

namespace tilewright {

// Made once for a row or a block; then the scale of each of its groups. One thread writes it. kQuant: kNone = any.
template <Quantisation kQuant = Quantisation::kNone>
struct FoundScales {
  static constexpr bool kMayBePowers = kQuant == Quantisation::kNone || has_groups(kQuant);
  static constexpr bool kMayHaveLevels = kQuant == Quantisation::kNone || kQuant == Quantisation::kGroup;
  const QuantisedScales& scales;
  const DType out;
  Divisor tensor{1, 1, true};  // of NVFP4's scales in two levels

  __device__ __forceinline__ FoundScales(const QuantisedScales& all, DType type) : scales(all), out(type) {
    if (has_levels()) tensor = divisor(of_tensor(scales));
  }
  __device__ __forceinline__ bool has_levels() const {
    return kMayHaveLevels && out == DType::kF4E2M1 && scales.dtype == DType::kF8E4M3;
  }
  __device__ __forceinline__ Divisor operator()(long long at, float most, bool writes) const {
    if (kMayBePowers && scales.dtype == DType::kE8M0) {
      const e8m0 code = power_scale_for(most, out, scales.rounding);
      if (writes) static_cast<unsigned char*>(scales.data)[at] = code.bits;
      return divisor(widen(code));
    }
    // Then amax / max, too, is near one.
    const bool usual = most >= 0x1p-90f && most <= 0x1p100f;
    const float of_limit = corrected_quotient(most, divisor_of(quantised_limit(out)));
    if (has_levels()) {
      const float multiple = corrected_quotient(of_limit, tensor);
      unsigned code = narrow_f8x4<e4m3::Format>(multiple, 0, 0, 0) & 255;
      if (code == 0) code = 1;
      if (!(usual && tensor.near_one && near_one(multiple))) code = multiple_scale_for(most, out, tensor.scale).bits;
      if (writes) static_cast<unsigned char*>(scales.data)[at] = static_cast<unsigned char>(code);
      const float scale = __fmul_rn(widen_top_code<e4m3::Format>(code << 24), tensor.scale);
      return divisor(scale == 0 ? 1 : scale);
    }
    Divisor by;
    if (usual) {
      by = {of_limit, reciprocal_near_one(of_limit), true};
    } else {
      by = divisor(scale_for(most, out));
    }
    if (writes) static_cast<float*>(scales.data)[at] = by.scale;
    return by;
  }
};

}  // namespace tilewright
