// SPDX-License-Identifier: MIT
#include "device/cuda/driver/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/environment.hpp"

namespace tilewright::cuda {
namespace {

constexpr int kOldestDriver = 12000;  // cuLibrary*, cuLaunchKernelEx, cuTensorMap*, cuStreamGetId

const char* find_driver_functions(void* library, Driver& d) {
  gpu::Symbols symbols(library);
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
  symbols.find(d.synchronize, "cuCtxSynchronize");
  symbols.find(d.allocate, "cuMemAlloc_v2");
  symbols.find(d.free, "cuMemFree_v2");
  symbols.find(d.memory_info, "cuMemGetInfo_v2");
  symbols.find(d.copy_from_host, "cuMemcpyHtoD_v2");
  symbols.find(d.copy_to_host, "cuMemcpyDtoH_v2");
  symbols.find(d.copy, "cuMemcpyDtoDAsync_v2");
  symbols.find(d.fill, "cuMemsetD8Async");
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
  symbols.find(d.create_stream, "cuStreamCreate");
  symbols.find(d.destroy_stream, "cuStreamDestroy_v2");
  symbols.find(d.synchronize_stream, "cuStreamSynchronize");
  symbols.find(d.stream_id, "cuStreamGetId");
  symbols.find(d.capture_status, "cuStreamIsCapturing");
  symbols.find(d.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  symbols.find(d.begin_capture, "cuStreamBeginCapture_v2");
  symbols.find(d.end_capture, "cuStreamEndCapture");
  symbols.find(d.create_event, "cuEventCreate");
  symbols.find(d.destroy_event, "cuEventDestroy_v2");
  symbols.find(d.record_event, "cuEventRecord");
  symbols.find(d.synchronize_event, "cuEventSynchronize");
  symbols.find(d.elapsed, "cuEventElapsedTime");
  symbols.find(d.instantiate, "cuGraphInstantiateWithFlags");
  symbols.find(d.launch_graph, "cuGraphLaunch");
  symbols.find(d.destroy_graph_exec, "cuGraphExecDestroy");
  symbols.find(d.destroy_graph, "cuGraphDestroy");
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
