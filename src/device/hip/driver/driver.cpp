// SPDX-License-Identifier: MIT
#include "device/hip/driver/driver.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/environment.hpp"

namespace tilewright::hip {
namespace {

constexpr int kOldestVersion = 50000000;
constexpr const char* kEmulationSymbol = "tilewright_emulated_hip";
const std::string kLibraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};

const char* find_functions(void* library, Driver& d) {
  gpu::Symbols symbols(library);
  symbols.find(d.hipInit, "hipInit");
  symbols.find(d.hipRuntimeGetVersion, "hipRuntimeGetVersion");
  symbols.find(d.hipGetErrorName, "hipGetErrorName");
  symbols.find(d.hipGetErrorString, "hipGetErrorString");
  symbols.find(d.hipGetLastError, "hipGetLastError");
  symbols.find(d.hipGetDeviceCount, "hipGetDeviceCount");
  symbols.find(d.hipDeviceGetName, "hipDeviceGetName");
  symbols.find(d.hipDeviceGetAttribute, "hipDeviceGetAttribute");
  symbols.find(d.hipDeviceTotalMem, "hipDeviceTotalMem");
  symbols.find_optional(d.hipGetDevicePropertiesR0600, "hipGetDevicePropertiesR0600");
  symbols.find(d.hipGetDeviceProperties, "hipGetDeviceProperties");
  symbols.find(d.hipGetDevice, "hipGetDevice");
  symbols.find(d.hipSetDevice, "hipSetDevice");
  symbols.find(d.hipModuleLoadData, "hipModuleLoadData");
  symbols.find(d.hipModuleUnload, "hipModuleUnload");
  symbols.find(d.hipModuleGetFunction, "hipModuleGetFunction");
  symbols.find(d.hipFuncGetAttribute, "hipFuncGetAttribute");
  symbols.find(d.hipModuleLaunchKernel, "hipModuleLaunchKernel");
  symbols.find(d.allocate, "hipMalloc");
  symbols.find(d.free, "hipFree");
  symbols.find(d.memory_info, "hipMemGetInfo");
  symbols.find(d.copy_from_host, "hipMemcpyHtoD");
  symbols.find(d.copy_to_host, "hipMemcpyDtoH");
  symbols.find(d.copy, "hipMemcpyDtoDAsync");
  symbols.find(d.fill, "hipMemsetD8Async");
  symbols.find(d.synchronize, "hipDeviceSynchronize");
  symbols.find(d.create_stream, "hipStreamCreateWithFlags");
  symbols.find(d.destroy_stream, "hipStreamDestroy");
  symbols.find(d.synchronize_stream, "hipStreamSynchronize");
  symbols.find_optional(d.stream_id, "hipStreamGetId");
  symbols.find(d.capture_status, "hipStreamIsCapturing");
  symbols.find(d.exchange_capture_mode, "hipThreadExchangeStreamCaptureMode");
  symbols.find(d.begin_capture, "hipStreamBeginCapture");
  symbols.find(d.end_capture, "hipStreamEndCapture");
  symbols.find(d.create_event, "hipEventCreateWithFlags");
  symbols.find(d.destroy_event, "hipEventDestroy");
  symbols.find(d.record_event, "hipEventRecord");
  symbols.find(d.synchronize_event, "hipEventSynchronize");
  symbols.find(d.elapsed, "hipEventElapsedTime");
  symbols.find(d.instantiate, "hipGraphInstantiateWithFlags");
  symbols.find(d.launch_graph, "hipGraphLaunch");
  symbols.find(d.destroy_graph_exec, "hipGraphExecDestroy");
  symbols.find(d.destroy_graph, "hipGraphDestroy");
  if (d.stream_id == nullptr) d.stream_id = stream_id_of_handle;
  d.emulated = dlsym(library, kEmulationSymbol) != nullptr;
  return symbols.missing();
}

// Never closed: the library's threads and what it registered at exit outlive every handle.
void* open_library(std::span<const std::string> libraries, Driver& d, std::string& reason) {
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const std::string& library : libraries) {
      if (void* const handle = dlopen(library.c_str(), flags)) {
        d.library = library;
        return handle;
      }
      // One that is there and lacks something says more than those that are not there.
      const char* const words = dlerror();
      const bool absent = words == nullptr || std::string_view(words).starts_with(library + ": cannot open");
      if (reason.empty() && !absent) reason = words;
    }
  }
  if (reason.empty()) reason = fmt::format("{} cannot be opened", fmt::join(libraries, ", "));
  return nullptr;
}

// Why a library that is there sees no GPU: the kernel's driver gives it one through this file.
std::string why_no_gpu() {
  constexpr const char* kKernelDriver = "/dev/kfd";
  if (access(kKernelDriver, F_OK) != 0) return "there is no /dev/kfd: no AMD GPU, or the kernel has no driver amdgpu";
  if (access(kKernelDriver, R_OK | W_OK) != 0) return "/dev/kfd is closed to this user: groups render, video";
  return "/dev/kfd is there: look at ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES";
}

}  // namespace

std::string Driver::version_text() const { return fmt::format("{}.{}", version / 10000000, version / 100000 % 100); }

gpu::Code stream_id_of_handle(gpu::Stream stream, unsigned long long* id) {
  static std::atomic<unsigned long long> threads{0};
  thread_local const unsigned long long thread = ++threads;
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  constexpr unsigned long long kOfThread = 1ull << 63;  // no address
  *id = handle == kPerThreadStream ? kOfThread | thread : handle;
  return gpu::kSuccess;
}

Status check(const Driver& driver, gpu::Code code, std::string_view what) {
  if (code == gpu::kSuccess) return {};
  const char* const name = driver.hipGetErrorName(code);
  const char* const text = driver.hipGetErrorString(code);
  std::string message = fmt::format("{}: {} ({})", what, name != nullptr ? name : "unknown HIP error", code);
  // Some versions repeat the name.
  if (text != nullptr && (name == nullptr || std::string_view(name) != text)) message += fmt::format(": {}", text);
  driver.hipGetLastError();
  return Status(code == static_cast<int>(HipError::kOutOfMemory) ? StatusCode::kOutOfMemory : StatusCode::kDeviceError,
                message);
}

Result<const Driver*> open_driver(std::span<const std::string> libraries) {
  auto opened = std::make_unique<Driver>();
  std::string reason;
  void* const handle = open_library(libraries, *opened, reason);
  if (handle == nullptr) return Status(StatusCode::kNotFound, fmt::format("hip: no HIP library: {}", reason));
  const char* const missing = find_functions(handle, *opened);
  if (opened->hipRuntimeGetVersion != nullptr) opened->hipRuntimeGetVersion(&opened->version);
  if (missing != nullptr || opened->version < kOldestVersion) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("hip: '{}' is HIP {}{}; allowed: at least 5.0", opened->library, opened->version_text(),
                              missing != nullptr ? fmt::format(" without {}", missing) : ""));
  }
  const gpu::Code code = opened->hipInit(0);
  Status status = check(*opened, code, "hipInit");
  if (status.ok()) return opened.release();
  if (code != static_cast<int>(HipError::kNoDevice) && code != static_cast<int>(HipError::kInvalidDevice)) {
    return Status(status.code(), fmt::format("hip: {}", status.message()));
  }
  return Status(status.code(), fmt::format("hip: '{}' (HIP {}) sees no AMD GPU: {}; {}", opened->library,
                                           opened->version_text(), status.message(), why_no_gpu()));
}

Result<const Driver*> driver() {
  static const auto* const kOpened = [] {
    const std::optional<std::string> named = environment("TILEWRIGHT_HIP_DRIVER");
    return new Result<const Driver*>(named ? open_driver(std::span(&*named, 1)) : open_driver(kLibraries));
  }();
  return *kOpened;
}

}  // namespace tilewright::hip
