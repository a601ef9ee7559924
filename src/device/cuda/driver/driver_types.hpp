// SPDX-License-Identifier: MIT
// The part of the CUDA driver API's ABI that tilewright uses, under names of its own, so that no toolkit is needed to
// build. Layouts and values are those of the CUDA Driver API reference, version 12.0 and later ("Data types used by CUDA
// driver"); the driver keeps them for every later version.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu/functions.hpp"

namespace tilewright::cuda {

// CUresult; only what is asked for by name.
enum class CuResult : int {
  kSuccess = 0,
  kOutOfMemory = 2,
  kDeinitialized = 4,
  kNoDevice = 100,
  kNotReady = 600,
  kStreamCaptureUnsupported = 900
};

using CuDevice = int;
using DevicePointer = void*;  // CUdeviceptr, an integer of the same size: passed alike
struct ContextHandle;
struct FunctionHandle;
struct LibraryHandle;
struct KernelHandle;
using CuContext = ContextHandle*;
using CuStream = gpu::Stream;
using CuFunction = FunctionHandle*;
using CuLibrary = LibraryHandle*;
using CuKernel = KernelHandle*;

// CUdevice_attribute
enum class DeviceAttribute : int {
  kClockRate = 13,  // kHz
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kSharedPerBlockOptin = 97,
};

// CUfunction_attribute
enum class FunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kSharedBytes = 1,
  kLocalBytes = 3,
  kRegisters = 4,
  kMaxDynamicSharedBytes = 8,
  kNonPortableClusterAllowed = 14,
};

// CUlaunchAttributeID
enum class LaunchAttributeId : int { kCooperative = 2, kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };

// CUlaunchAttributeValue is a union of 64 bytes.
union LaunchAttributeValue {
  char bytes[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int cooperative;
  int programmatic_stream_serialization_allowed;
};

struct LaunchAttribute {  // CUlaunchAttribute
  LaunchAttributeId id;
  char padding[4];
  LaunchAttributeValue value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CuStream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(offsetof(LaunchConfig, stream) == 32 && sizeof(LaunchConfig) == 56);

// CUtensorMapDataType
enum class MapDataType : int {
  kUint8 = 0,
  kUint16 = 1,
  kUint32 = 2,
  kInt32 = 3,
  kFloat16 = 6,
  kFloat32 = 7,
  kBfloat16 = 9,
};
enum class MapInterleave : int { kNone = 0 };                                // CUtensorMapInterleave
enum class MapSwizzle : int { kNone = 0, k32 = 1, k64 = 2, k128 = 3 };       // CUtensorMapSwizzle
enum class MapL2Promotion : int { kNone = 0, k64 = 1, k128 = 2, k256 = 3 };  // CUtensorMapL2promotion
enum class MapOutOfBounds : int { kZeros = 0 };                              // CUtensorMapFloatOOBfill

}  // namespace tilewright::cuda
