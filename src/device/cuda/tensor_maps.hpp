// SPDX-License-Identifier: MIT
// A TensorMapSpec as the driver's arguments, checked first: the driver's own refusal does not say which value it means.
#pragma once

#include <array>

#include "device/cuda/driver/driver_types.hpp"
#include "device/device.hpp"

namespace tilewright::cuda {

struct TensorMapArguments {
  MapDataType type;
  uint32_t rank;
  std::array<uint64_t, 5> dims;
  std::array<uint64_t, 4> strides;  // bytes, from dimension 1 on
  std::array<uint32_t, 5> box, element_strides;
  MapSwizzle swizzle;
  MapInterleave interleave = MapInterleave::kNone;
  MapL2Promotion promotion =
      MapL2Promotion::k128;  // 256 bytes slow streams from memory on an H200; 128, 64, none are alike
  MapOutOfBounds out_of_bounds = MapOutOfBounds::kZeros;
};

// The error names the field, its value and what is allowed.
Result<TensorMapArguments> tensor_map_arguments(const TensorMapSpec& spec);

// What an address in a tensor map must be a multiple of.
inline constexpr uintptr_t kTensorMapAlignment = 16;

}  // namespace tilewright::cuda
