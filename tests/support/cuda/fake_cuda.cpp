// SPDX-License-Identifier: MIT
// A CUDA driver without a GPU: device memory is the host's, kernels do nothing, and everything is written down.
#include "support/cuda/fake_cuda.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>

using namespace tilewright::cuda;
using tilewright::gpu::CaptureMode, tilewright::gpu::CaptureStatus;
using CuEvent = tilewright::gpu::Event;
using CuGraph = tilewright::gpu::Graph;
using CuGraphExec = tilewright::gpu::GraphExec;
using tilewright::test::FakeCuda;

namespace {

FakeCuda& fake() {
  static FakeCuda* const state = new FakeCuda();
  return *state;
}
thread_local std::vector<CuContext> contexts;

// Whether the test wants this call to fail; each failure is used once.
CuResult result_of(const char* function) {
  fake().calls.emplace_back(function);
  const auto it = fake().failures.find(function);
  if (it == fake().failures.end()) return CuResult::kSuccess;
  const auto result = static_cast<CuResult>(it->second);
  fake().failures.erase(it);
  return result;
}

constexpr CuResult kInvalidValue{1}, kInvalidContext{201};

template <class Handle>
Handle handle(uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}

// For tests of programs: FAKE_CUDA_TRACE names a file for the launches of one kernel, and for the tensor maps that are made,
// a line of JSON each; FAKE_CUDA_KERNEL says which kernel, and how many bytes of arguments it takes: "symbol=bytes".
class Trace {
 public:
  static const Trace& get() {
    static const Trace kTrace;
    return kTrace;
  }
  bool on() const { return !path_.empty(); }
  bool follows(const char* symbol) const { return on() && symbol_ == symbol; }
  size_t arg_bytes() const { return arg_bytes_; }
  void write(const std::string& line) const { std::ofstream(path_, std::ios::app) << line << '\n'; }

 private:
  Trace() {
    const char* const path = std::getenv("FAKE_CUDA_TRACE");
    const char* const kernel = std::getenv("FAKE_CUDA_KERNEL");
    if (path == nullptr || kernel == nullptr) return;
    const std::string text = kernel;
    path_ = path;
    symbol_ = text.substr(0, text.find('='));
    arg_bytes_ = std::strtoull(text.c_str() + text.find('=') + 1, nullptr, 10);
  }
  std::string path_, symbol_;
  size_t arg_bytes_ = 0;
};
const auto kKernel = handle<CuKernel>(0x2000), kTracedKernel = handle<CuKernel>(0x2001);
const auto kFunction = handle<CuFunction>(0x3000), kTracedFunction = handle<CuFunction>(0x3001);

std::string numbers(std::initializer_list<uint64_t> values) {
  std::string text;
  for (const uint64_t value : values) text += (text.empty() ? "[" : ", ") + std::to_string(value);
  return text + "]";
}
std::string hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
}
void trace(const FakeCuda::Launch& launch) {
  const LaunchConfig& c = launch.config;
  const bool cluster = !launch.attributes.empty() && launch.attributes[0].id == LaunchAttributeId::kClusterDimension;
  const auto size = cluster ? launch.attributes[0].value.cluster : decltype(LaunchAttributeValue::cluster){1, 1, 1};
  Trace::get().write("{\"launch\": {\"grid\": " + numbers({c.grid_x, c.grid_y, c.grid_z}) +
                     ", \"block\": " + numbers({c.block_x, c.block_y, c.block_z}) + ", \"cluster\": " +
                     numbers({size.x, size.y, size.z}) + ", \"shared_bytes\": " + std::to_string(c.shared_bytes) +
                     ", \"args\": \"" + hex(launch.args) + "\"}}");
}
void trace(const FakeCuda::Map& m) {
  Trace::get().write("{\"map\": {\"type\": " + std::to_string(static_cast<int>(m.type)) + ", \"rank\": " +
                     std::to_string(m.rank) + ", \"dims\": " + numbers({m.dims[0], m.dims[1], m.dims[2]}) +
                     ", \"strides\": " + numbers({m.strides[0], m.strides[1]}) +
                     ", \"box\": " + numbers({m.box[0], m.box[1], m.box[2]}) +
                     ", \"swizzle\": " + std::to_string(static_cast<int>(m.swizzle)) + "}}");
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED FakeCuda* fake_cuda() { return &fake(); }

EXPORTED CuResult cuInit(unsigned) { return result_of("cuInit"); }
EXPORTED CuResult cuDriverGetVersion(int* version) {
  *version = fake().version;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuGetErrorName(CuResult error, const char** name) {
  *name = error == CuResult::kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CuResult::kSuccess;
}
EXPORTED CuResult cuGetErrorString(CuResult, const char** text) {
  *text = "as the test wanted";
  return CuResult::kSuccess;
}
EXPORTED CuResult cuDeviceGetCount(int* count) {
  *count = fake().devices;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  *device = ordinal;
  return ordinal < fake().devices ? CuResult::kSuccess : kInvalidValue;
}
EXPORTED CuResult cuDeviceGetName(char* name, int bytes, CuDevice) {
  std::strncpy(name, fake().name.c_str(), static_cast<size_t>(bytes));
  return CuResult::kSuccess;
}
EXPORTED CuResult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, CuDevice) {
  switch (attribute) {
    case DeviceAttribute::kClockRate: *value = 1980000; break;
    case DeviceAttribute::kMultiprocessorCount: *value = 132; break;
    case DeviceAttribute::kL2CacheSize: *value = 50 << 20; break;
    case DeviceAttribute::kCapabilityMajor: *value = fake().major; break;
    case DeviceAttribute::kCapabilityMinor: *value = fake().minor; break;
    case DeviceAttribute::kSharedPerMultiprocessor: *value = 233472; break;
    case DeviceAttribute::kSharedPerBlockOptin: *value = 232448; break;
  }
  return CuResult::kSuccess;
}
EXPORTED CuResult cuDeviceTotalMem_v2(size_t* bytes, CuDevice) {
  *bytes = size_t{141} << 30;
  return CuResult::kSuccess;
}

EXPORTED CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  ++fake().retained;
  *context = handle<CuContext>(0x1000 + static_cast<uintptr_t>(device));
  return result_of("cuDevicePrimaryCtxRetain");
}
EXPORTED CuResult cuDevicePrimaryCtxRelease_v2(CuDevice) {
  --fake().retained;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuCtxGetCurrent(CuContext* context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return CuResult::kSuccess;
}
EXPORTED CuResult cuCtxPushCurrent_v2(CuContext context) {
  contexts.push_back(context);
  return CuResult::kSuccess;
}
EXPORTED CuResult cuCtxPopCurrent_v2(CuContext* context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return CuResult::kSuccess;
}
EXPORTED CuResult cuCtxSynchronize() { return result_of("cuCtxSynchronize"); }

EXPORTED CuResult cuMemAlloc_v2(DevicePointer* data, size_t bytes) {
  if (const CuResult result = result_of("cuMemAlloc"); result != CuResult::kSuccess) return result;
  if (contexts.empty()) return kInvalidContext;
  if (!fake().relaxed) fake().allocated_unrelaxed = true;
  ++fake().live_allocations;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return CuResult::kSuccess;
}
EXPORTED CuResult cuMemFree_v2(DevicePointer data) {
  if (contexts.empty()) return kInvalidContext;
  fake().used_after_release |= fake().retained == 0;
  --fake().live_allocations;
  std::free(data);
  return CuResult::kSuccess;
}
EXPORTED CuResult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  *free_bytes = fake().free_bytes;
  *total = size_t{141} << 30;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return result_of("cuMemcpyHtoD");
}
EXPORTED CuResult cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return result_of("cuMemcpyDtoH");
}
EXPORTED CuResult cuMemcpyDtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, CuStream) {
  std::memcpy(to, from, bytes);
  return CuResult::kSuccess;
}
EXPORTED CuResult cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, CuStream) {
  std::memset(to, value, bytes);
  return CuResult::kSuccess;
}

EXPORTED CuResult cuLibraryLoadData(CuLibrary* library, const void*, void*, void**, unsigned, void*, void**, unsigned) {
  const CuResult result = result_of("cuLibraryLoadData");
  if (result == CuResult::kSuccess) *library = handle<CuLibrary>(static_cast<uintptr_t>(++fake().live_libraries));
  return result;
}
EXPORTED CuResult cuLibraryUnload(CuLibrary) {
  --fake().live_libraries;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuLibraryGetKernel(CuKernel* kernel, CuLibrary, const char* symbol) {
  *kernel = Trace::get().follows(symbol) ? kTracedKernel : kKernel;
  return result_of("cuLibraryGetKernel");
}
EXPORTED CuResult cuKernelGetFunction(CuFunction* function, CuKernel kernel) {
  *function = kernel == kTracedKernel ? kTracedFunction : kFunction;
  return contexts.empty() ? kInvalidContext : result_of("cuKernelGetFunction");
}
EXPORTED CuResult cuKernelGetAttribute(int* value, FunctionAttribute attribute, CuKernel, CuDevice) {
  *value = attribute == FunctionAttribute::kMaxThreadsPerBlock ? fake().max_threads : fake().static_shared;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuKernelSetAttribute(FunctionAttribute attribute, int value, CuKernel, CuDevice) {
  const bool shared = attribute == FunctionAttribute::kMaxDynamicSharedBytes;
  if (shared && value + fake().static_shared > 232448) return kInvalidValue;
  fake().function_attributes[static_cast<int>(attribute)] = value;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuKernelGetParamInfo(CuKernel kernel, size_t index, size_t* offset, size_t* bytes) {
  if (index > 0 || fake().arg_bytes == 0) return kInvalidValue;
  if (Trace::get().on() && kernel != kTracedKernel) return kInvalidValue;
  *offset = 0;
  *bytes = kernel == kTracedKernel ? Trace::get().arg_bytes() : fake().arg_bytes;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuLaunchKernelEx(const LaunchConfig* config, CuFunction function, void** params, void**) {
  FakeCuda::Launch launch{*config, {}, {}, nullptr};
  const size_t bytes = function == kTracedFunction ? Trace::get().arg_bytes() : fake().arg_bytes;
  if (params[0] != nullptr && (!Trace::get().on() || function == kTracedFunction)) {
    launch.args.assign(static_cast<const char*>(params[0]), bytes);
  }
  launch.attributes.assign(config->attributes, config->attributes + config->attribute_count);
  cuCtxGetCurrent(&launch.context);
  if (function == kTracedFunction) trace(launch);
  fake().launches.push_back(launch);
  return result_of("cuLaunchKernelEx");
}

EXPORTED CuResult cuTensorMapEncodeTiled(void* map, MapDataType type, uint32_t rank, void* address,
                                         const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                                         const uint32_t*, MapInterleave, MapSwizzle swizzle, MapL2Promotion,
                                         MapOutOfBounds) {
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) return kInvalidValue;
  FakeCuda::Map made{type, rank, {}, {}, {}, swizzle, address};
  std::memcpy(made.dims, dims, rank * sizeof(*dims));
  std::memcpy(made.strides, strides, (rank - 1) * sizeof(*strides));
  std::memcpy(made.box, box, rank * sizeof(*box));
  fake().maps.push_back(made);
  if (Trace::get().on()) trace(made);
  std::memset(map, 0x5A, 128);
  std::memcpy(static_cast<char*>(map) + fake().map_address_offset, &address, sizeof(address));
  return result_of("cuTensorMapEncodeTiled");
}
EXPORTED CuResult cuTensorMapReplaceAddress(void* map, void* address) {
  std::memcpy(static_cast<char*>(map) + fake().map_address_offset, &address, sizeof(address));
  return CuResult::kSuccess;
}

EXPORTED CuResult cuStreamCreate(CuStream* stream, unsigned) {
  *stream = handle<CuStream>(0x4000);
  return result_of("cuStreamCreate");
}
EXPORTED CuResult cuStreamDestroy_v2(CuStream) {
  fake().used_after_release |= fake().retained == 0;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuStreamSynchronize(CuStream) { return result_of("cuStreamSynchronize"); }
EXPORTED CuResult cuStreamGetId(CuStream stream, unsigned long long* id) {
  const auto it = fake().stream_ids.find(stream);
  *id = it != fake().stream_ids.end() ? it->second : reinterpret_cast<uintptr_t>(stream);
  return result_of("cuStreamGetId");
}
EXPORTED CuResult cuStreamIsCapturing(CuStream stream, CaptureStatus* status) {
  *status = stream == fake().capturing ? CaptureStatus::kActive : CaptureStatus::kNone;
  return result_of("cuStreamIsCapturing");
}
EXPORTED CuResult cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  const CaptureMode before = fake().relaxed ? CaptureMode::kRelaxed : CaptureMode::kGlobal;
  fake().relaxed = *mode == CaptureMode::kRelaxed;
  *mode = before;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuStreamBeginCapture_v2(CuStream, CaptureMode) { return result_of("cuStreamBeginCapture"); }
EXPORTED CuResult cuStreamEndCapture(CuStream, CuGraph* graph) {
  *graph = handle<CuGraph>(0x5000);
  return result_of("cuStreamEndCapture");
}
EXPORTED CuResult cuEventCreate(CuEvent* event, unsigned) {
  *event = handle<CuEvent>(0x6000);
  return CuResult::kSuccess;
}
EXPORTED CuResult cuEventDestroy_v2(CuEvent) { return CuResult::kSuccess; }
EXPORTED CuResult cuEventRecord(CuEvent, CuStream) { return CuResult::kSuccess; }
EXPORTED CuResult cuEventSynchronize(CuEvent) { return result_of("cuEventSynchronize"); }
EXPORTED CuResult cuEventElapsedTime(float* milliseconds, CuEvent, CuEvent) {
  *milliseconds = 2;
  return CuResult::kSuccess;
}
EXPORTED CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph, unsigned long long) {
  *exec = handle<CuGraphExec>(0x7000);
  return CuResult::kSuccess;
}
EXPORTED CuResult cuGraphLaunch(CuGraphExec, CuStream) { return result_of("cuGraphLaunch"); }
EXPORTED CuResult cuGraphExecDestroy(CuGraphExec) { return CuResult::kSuccess; }
EXPORTED CuResult cuGraphDestroy(CuGraph) { return CuResult::kSuccess; }
