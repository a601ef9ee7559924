// SPDX-License-Identifier: MIT
#include "device/cuda/driver/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/environment.hpp"

namespace tilewright::cuda {
namespace {

constexpr int kOldestDriver = 12000;  // cuLibrary*, cuLaunchKernelEx, cuTensorMap*, cuStreamGetId

// Finds functions by name and remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Function>
  void find_optional(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

const char* find_driver_functions(void* library, Driver& d) {
  Symbols symbols(library);
  symbols.find(d.cuInit, "cuInit");
  symbols.find(d.cuDriverGetVersion, "cuDriverGetVersion");
  symbols.find(d.cuGetErrorName, "cuGetErrorName");
  symbols.find(d.cuGetErrorString, "cuGetErrorString");
  symbols.find(d.cuDeviceGetCount, "cuDeviceGetCount");
  symbols.find(d.cuDeviceGet, "cuDeviceGet");
  symbols.find(d.cuDeviceGetName, "cuDeviceGetName");
  symbols.find(d.cuDeviceGetAttribute, "cuDeviceGetAttribute");
  symbols.find(d.cuDeviceTotalMem_v2, "cuDeviceTotalMem_v2");
  symbols.find_optional(d.cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  symbols.find(d.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  symbols.find(d.cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease_v2");
  symbols.find(d.cuCtxGetCurrent, "cuCtxGetCurrent");
  symbols.find(d.cuCtxPushCurrent_v2, "cuCtxPushCurrent_v2");
  symbols.find(d.cuCtxPopCurrent_v2, "cuCtxPopCurrent_v2");
  symbols.find(d.cuCtxSynchronize, "cuCtxSynchronize");
  symbols.find(d.cuMemAlloc_v2, "cuMemAlloc_v2");
  symbols.find(d.cuMemFree_v2, "cuMemFree_v2");
  symbols.find(d.cuMemGetInfo_v2, "cuMemGetInfo_v2");
  symbols.find(d.cuMemcpyHtoD_v2, "cuMemcpyHtoD_v2");
  symbols.find(d.cuMemcpyDtoH_v2, "cuMemcpyDtoH_v2");
  symbols.find(d.cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2");
  symbols.find(d.cuMemsetD8Async, "cuMemsetD8Async");
  symbols.find(d.cuLibraryLoadData, "cuLibraryLoadData");
  symbols.find(d.cuLibraryUnload, "cuLibraryUnload");
  symbols.find(d.cuLibraryGetKernel, "cuLibraryGetKernel");
  symbols.find(d.cuKernelGetFunction, "cuKernelGetFunction");
  symbols.find(d.cuKernelGetAttribute, "cuKernelGetAttribute");
  symbols.find(d.cuKernelSetAttribute, "cuKernelSetAttribute");
  symbols.find_optional(d.cuKernelGetParamInfo, "cuKernelGetParamInfo");
  symbols.find(d.cuLaunchKernelEx, "cuLaunchKernelEx");
  symbols.find(d.cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled");
  symbols.find(d.cuTensorMapReplaceAddress, "cuTensorMapReplaceAddress");
  symbols.find(d.cuStreamCreate, "cuStreamCreate");
  symbols.find(d.cuStreamDestroy_v2, "cuStreamDestroy_v2");
  symbols.find(d.cuStreamSynchronize, "cuStreamSynchronize");
  symbols.find(d.cuStreamGetId, "cuStreamGetId");
  symbols.find(d.cuStreamIsCapturing, "cuStreamIsCapturing");
  symbols.find(d.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  symbols.find(d.cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2");
  symbols.find(d.cuStreamEndCapture, "cuStreamEndCapture");
  symbols.find(d.cuEventCreate, "cuEventCreate");
  symbols.find(d.cuEventDestroy_v2, "cuEventDestroy_v2");
  symbols.find(d.cuEventRecord, "cuEventRecord");
  symbols.find(d.cuEventSynchronize, "cuEventSynchronize");
  symbols.find(d.cuEventElapsedTime, "cuEventElapsedTime");
  symbols.find(d.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
  symbols.find(d.cuGraphLaunch, "cuGraphLaunch");
  symbols.find(d.cuGraphExecDestroy, "cuGraphExecDestroy");
  symbols.find(d.cuGraphDestroy, "cuGraphDestroy");
  return symbols.missing();
}

}  // namespace

Status check(const Driver& driver, CuResult result, std::string_view what) {
  if (result == CuResult::kSuccess) return {};
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  return Status(result == CuResult::kOutOfMemory ? StatusCode::kOutOfMemory : StatusCode::kDeviceError,
                fmt::format("{}: {} ({}): {}", what, name != nullptr ? name : "unknown CUDA error",
                            static_cast<int>(result), text != nullptr ? text : "no description"));
}

Result<const Driver*> open_driver(const std::string& library) {
  // Never closed: the driver's threads and what it registered at exit outlive every handle.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Status(StatusCode::kNotFound, fmt::format("cuda: no driver: {}", reason != nullptr ? reason : library));
  }
  auto opened = std::make_unique<Driver>();
  const char* const missing = find_driver_functions(handle, *opened);
  if (opened->cuDriverGetVersion != nullptr) opened->cuDriverGetVersion(&opened->version);
  if (missing != nullptr || opened->version < kOldestDriver) {
    return Status(
        StatusCode::kUnsupported,
        fmt::format("cuda: '{}' is a driver for CUDA {}.{}{}; allowed: at least {}.{}", library, opened->version / 1000,
                    opened->version % 1000 / 10, missing != nullptr ? fmt::format(" without {}", missing) : "",
                    kOldestDriver / 1000, kOldestDriver % 1000 / 10));
  }
  if (Status s = check(*opened, opened->cuInit(0), "cuda: cuInit"); !s) return s;
  return opened.release();
}

Result<const Driver*> driver() {
  static const auto* const kOpened =
      new Result<const Driver*>(open_driver(environment("TILEWRIGHT_CUDA_DRIVER").value_or("libcuda.so.1")));
  return *kOpened;
}

}  // namespace tilewright::cuda
