// SPDX-License-Identifier: MIT
// Scales that are found from the largest magnitude of what shares one. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row_codes.cuh"
#include "tile/gpu/row_encode.cuh"

namespace tilewright {

// A group's scale that is a multiple of its tensor's: the multiple's code, and what it divides by.
struct FoundMultiple {
  unsigned code;
  Divisor by;
};
// NVFP4's scales of groups as most of them are, none of whose numbers is far from one.
struct MultiplesOfScale {
  Divisor tensor;

  __device__ __forceinline__ MultiplesOfScale(const Divisor& of_tensor, bool has_levels) : tensor(of_tensor) {
    // So that no multiple is found below.
    if (!(has_levels && tensor.scale >= 0x1p-80f && tensor.scale <= 0x1p80f))
      tensor.reciprocal = __builtin_bit_cast(float, 0x7FC00000u);
  }
  // Of a group whose largest magnitude is `most`; false: the group is another one.
  __device__ __forceinline__ bool find(float most, FoundMultiple& found) const {
    const float of_limit = corrected_quotient(most, divisor_of(quantised_limit(DType::kF4E2M1)));
    const float multiple = corrected_quotient(of_limit, tensor);
    // Neither is `most` far above one then; where it is far below, the code is 1 however these are rounded.
    if (!(multiple <= 0x1p15f)) return false;
    found.code = narrow_f8x4<e4m3::Format>(multiple, 0, 0, 0) & 255;
    if (found.code == 0) found.code = 1;
    // From 2^-9 to 448 times the tensor's: near one too. No code is NaN.
    const float of_tensor = __fmul_rn(__builtin_bit_cast(float, found.code << e4m3::Format::kShift), 0x1p120f);
    found.by.scale = __fmul_rn(of_tensor, tensor.scale);
    found.by.reciprocal = reciprocal_near_one(found.by.scale), found.by.near_one = true;
    return true;
  }
};

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
      FoundMultiple found;
      if (!MultiplesOfScale(tensor, true).find(most, found)) {
        found.code = multiple_scale_for(most, out, tensor.scale).bits;
        const float scale = __fmul_rn(widen_top_code<e4m3::Format>(found.code << 24), tensor.scale);
        found.by = divisor(scale == 0 ? 1 : scale);
        found.by.near_one = false;  // or what is divided by it is not
      }
      if (writes) static_cast<unsigned char*>(scales.data)[at] = static_cast<unsigned char>(found.code);
      return found.by;
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
