// SPDX-License-Identifier: MIT
// The CUDA driver, opened when it is first asked for: a table of its functions, and its errors as Status.
#pragma once

#include <string>
#include <string_view>

#include "device/cuda/driver/driver_types.hpp"
#include "device/gpu/functions.hpp"
#include "tilewright/status.hpp"

namespace tilewright::cuda {

// Functions of libcuda.so.1, by the names of their exported symbols, and what HIP has as well. Null: an optional one that this
// driver lacks.
struct Driver : gpu::Functions {
  // Start, errors, devices.
  CuResult (*cuInit)(unsigned flags);
  CuResult (*cuDriverGetVersion)(int* version);
  CuResult (*cuGetErrorName)(CuResult error, const char** name);
  CuResult (*cuGetErrorString)(CuResult error, const char** text);
  CuResult (*cuDeviceGetCount)(int* count);
  CuResult (*cuDeviceGet)(CuDevice* device, int ordinal);
  CuResult (*cuDeviceGetName)(char* name, int bytes, CuDevice device);
  CuResult (*cuDeviceGetAttribute)(int* value, DeviceAttribute attribute, CuDevice device);
  CuResult (*cuDeviceTotalMem_v2)(size_t* bytes, CuDevice device);
  CuResult (*cuDeviceGetPCIBusId)(char* id, int bytes, CuDevice device);  // optional
  // Contexts.
  CuResult (*cuDevicePrimaryCtxRetain)(CuContext* context, CuDevice device);
  CuResult (*cuDevicePrimaryCtxRelease_v2)(CuDevice device);
  CuResult (*cuCtxGetCurrent)(CuContext* context);
  CuResult (*cuCtxPushCurrent_v2)(CuContext context);
  CuResult (*cuCtxPopCurrent_v2)(CuContext* context);
  // Code.
  CuResult (*cuLibraryLoadData)(CuLibrary* library, const void* code, void* jit_options, void** jit_values,
                                unsigned jit_count, void* options, void** values, unsigned count);
  CuResult (*cuLibraryUnload)(CuLibrary library);
  CuResult (*cuLibraryGetKernel)(CuKernel* kernel, CuLibrary library, const char* name);
  CuResult (*cuKernelGetFunction)(CuFunction* function, CuKernel kernel);
  CuResult (*cuKernelGetAttribute)(int* value, FunctionAttribute attribute, CuKernel kernel, CuDevice device);
  CuResult (*cuKernelSetAttribute)(FunctionAttribute attribute, int value, CuKernel kernel, CuDevice device);
  CuResult (*cuKernelGetParamInfo)(CuKernel kernel, size_t index, size_t* offset, size_t* bytes);  // optional, 12.4
  CuResult (*cuLaunchKernelEx)(const LaunchConfig* config, CuFunction function, void** params, void** extra);
  // Tensor maps.
  CuResult (*cuTensorMapEncodeTiled)(void* map, MapDataType type, uint32_t rank, void* address, const uint64_t* dims,
                                     const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                                     MapInterleave interleave, MapSwizzle swizzle, MapL2Promotion promotion,
                                     MapOutOfBounds fill);
  CuResult (*cuTensorMapReplaceAddress)(void* map, void* address);
  int version = 0;  // 13000 = CUDA 13.0
};

// Opens `library` and initialises the driver in it. The error names what is missing.
Result<const Driver*> open_driver(const std::string& library);
// $TILEWRIGHT_CUDA_DRIVER, else libcuda.so.1; opened once a process.
Result<const Driver*> driver();

// Ok, or a Status with CUDA's name and text: "cuda:0: launch of 'gemm/...': CUDA_ERROR_INVALID_VALUE (1): invalid argument".
Status check(const Driver& driver, CuResult result, std::string_view what);
inline Status check(const Driver& driver, gpu::Code code, std::string_view what) {
  return check(driver, static_cast<CuResult>(code), what);
}

}  // namespace tilewright::cuda
