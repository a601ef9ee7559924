// SPDX-License-Identifier: MIT
// The part of HIP's ABI that tilewright uses, under names of its own, so that no ROCm is needed to build. Values are those of the
// HIP Runtime API reference; versions 5, 6 and 7 share them.
#pragma once

#include <cstddef>

#include "device/gpu/functions.hpp"

namespace tilewright::hip {

// hipError_t; only what is asked for by name.
enum class HipError : int { kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101 };

using HipModule = void*;
using HipFunction = void*;
inline constexpr int kPerThreadStream = 2;  // hipStreamPerThread, a stream of its own in each thread

// hipDeviceAttribute_t
enum class DeviceAttribute : int {
  kClockRate = 5,  // kHz
  kL2CacheSize = 19,
  kMultiprocessorCount = 63,
  kSharedPerBlock = 74,
  kSharedPerMultiprocessor = 10002,
};

// hipFunction_attribute
enum class FunctionAttribute : int { kMaxThreadsPerBlock = 0, kSharedBytes = 1 };

// How a launch's `extra` hands over the arguments as one block (HIP_LAUNCH_PARAM_*).
inline void* const kArgumentBuffer = reinterpret_cast<void*>(0x1);
inline void* const kArgumentBytes = reinterpret_cast<void*>(0x2);
inline void* const kArgumentEnd = reinterpret_cast<void*>(0x3);

// hipDeviceProp_t changed with version 6, and so did the name of the function that fills it. All that is read of it is where
// gcnArchName ("gfx942:sramecc+:xnack-") stands; the space is more than either has.
inline constexpr size_t kPropertyBytes = 8192;
inline constexpr size_t kArchNameBytes = 256;
inline constexpr size_t kArchNameAt = 1160;    // hipGetDevicePropertiesR0600
inline constexpr size_t kArchNameAtOld = 396;  // hipGetDeviceProperties

}  // namespace tilewright::hip
