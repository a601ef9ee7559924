// SPDX-License-Identifier: MIT
// HIP's runtime library, opened when it is first asked for: a table of its functions, and its errors as Status.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "device/hip/driver/driver_types.hpp"
#include "tilewright/status.hpp"

namespace tilewright::hip {

// Functions of libamdhip64.so, by the names of their exported symbols, and what CUDA has as well. Null: an optional one that this
// version lacks.
struct Driver : gpu::Functions {
  // Start, errors, devices.
  gpu::Code (*hipInit)(unsigned flags);
  gpu::Code (*hipRuntimeGetVersion)(int* version);
  const char* (*hipGetErrorName)(gpu::Code error);
  const char* (*hipGetErrorString)(gpu::Code error);
  gpu::Code (*hipGetLastError)();  // and forgets it
  gpu::Code (*hipGetDeviceCount)(int* count);
  gpu::Code (*hipDeviceGetName)(char* name, int bytes, int device);
  gpu::Code (*hipDeviceGetAttribute)(int* value, DeviceAttribute attribute, int device);
  gpu::Code (*hipDeviceTotalMem)(size_t* bytes, int device);
  gpu::Code (*hipGetDevicePropertiesR0600)(void* properties, int device);  // optional, 6.0
  gpu::Code (*hipGetDeviceProperties)(void* properties, int device);
  gpu::Code (*hipGetDevice)(int* device);
  gpu::Code (*hipSetDevice)(int device);
  // Code.
  gpu::Code (*hipModuleLoadData)(HipModule* module, const void* code);
  gpu::Code (*hipModuleUnload)(HipModule module);
  gpu::Code (*hipModuleGetFunction)(HipFunction* function, HipModule module, const char* name);
  gpu::Code (*hipFuncGetAttribute)(int* value, FunctionAttribute attribute, HipFunction function);
  gpu::Code (*hipModuleLaunchKernel)(HipFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                     gpu::Stream stream, void** params, void** extra);

  int version = 0;        // 60342131 = HIP 6.3
  bool emulated = false;  // it takes emulated objects where HIP takes code objects (tests/support/hip)
  std::string library;    // what it was opened by

  std::string version_text() const;  // "6.3"
};

// Opens the first of `libraries` that is there, one that the process has already before all others, and initialises it. The
// error names what is missing: kNotFound without a library, kDeviceError without a GPU.
Result<const Driver*> open_driver(std::span<const std::string> libraries);
// $TILEWRIGHT_HIP_DRIVER, else libamdhip64.so.7, .6, .5 or without a version; opened once a process.
Result<const Driver*> driver();

// Ok, or a Status with HIP's name and text: "hip:0: launch of 'gemm/...': hipErrorInvalidValue (1): invalid argument". The
// error is taken from what hipGetLastError() has for this thread: others would think it theirs.
Status check(const Driver& driver, gpu::Code code, std::string_view what);

// hipStreamGetId came with version 7. Until then a stream is known by its handle, and the one that each thread has by its thread.
gpu::Code stream_id_of_handle(gpu::Stream stream, unsigned long long* id);

}  // namespace tilewright::hip
