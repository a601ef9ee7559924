// SPDX-License-Identifier: MIT
// HIP without an AMD GPU: devices, memory and code. Kernels are emulated objects, and run; code objects do nothing.
#include "support/hip/fake_hip.hpp"

#include <algorithm>
#include <cstring>

#include "device/host_memory.hpp"
#include "support/hip/machine.hpp"

using namespace tilewright;
using namespace tilewright::test;
using hip::DeviceAttribute;
using hip::FunctionAttribute;

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

bool is_device(const Machine& machine, int device) { return device >= 0 && device < machine.told.devices; }

Code fill_properties(void* properties, int device, size_t arch_name_at) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  if (!is_device(machine, device)) return machine.done(kFakeInvalidDevice);
  auto* const bytes = static_cast<char*>(properties);
  std::strncpy(bytes, machine.told.name.c_str(), hip::kArchNameBytes);
  std::strncpy(bytes + arch_name_at, machine.told.processor.c_str(), hip::kArchNameBytes);
  return gpu::kSuccess;
}

}  // namespace

EXPORTED FakeHip* fake_hip() { return &Machine::get().told; }
// By this a HIP device knows that it takes emulated objects.
EXPORTED int tilewright_emulated_hip() { return 1; }

EXPORTED Code hipInit(unsigned) {
  return call("hipInit", [](Machine& m) -> Code { return m.told.devices > 0 ? gpu::kSuccess : kFakeNoDevice; });
}
EXPORTED Code hipRuntimeGetVersion(int* version) {
  *version = Machine::get().told.version;
  return gpu::kSuccess;
}
EXPORTED const char* hipGetErrorName(Code error) {
  switch (error) {
    case kFakeOutOfMemory: return "hipErrorOutOfMemory";
    case kFakeNoDevice: return "hipErrorNoDevice";
    case kFakeInvalidImage: return "hipErrorInvalidImage";
    case kFakeNoBinary: return "hipErrorNoBinaryForGpu";
    case kFakeNotFound: return "hipErrorNotFound";
    case kFakeIllegalAddress: return "hipErrorIllegalAddress";
    case kFakeCaptureUnsupported: return "hipErrorStreamCaptureUnsupported";
    case kFakeCaptureInvalidated: return "hipErrorStreamCaptureInvalidated";
    default: return "hipErrorFake";
  }
}
// HIP's texts are fixed; this one's tell what the emulation found.
EXPORTED const char* hipGetErrorString(Code error) { return Machine::get().words_of(error).c_str(); }
EXPORTED Code hipGetLastError() { return Machine::get().take_last_error(); }

EXPORTED Code hipGetDeviceCount(int* count) {
  *count = Machine::get().told.devices;
  return gpu::kSuccess;
}
EXPORTED Code hipGetDevice(int* device) {
  *device = Machine::get().current();
  return gpu::kSuccess;
}
EXPORTED Code hipSetDevice(int device) {
  Machine& machine = Machine::get();
  if (!is_device(machine, device)) return machine.done(kFakeInvalidDevice);
  machine.current() = device;
  return gpu::kSuccess;
}
EXPORTED Code hipDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, Machine::get().told.name.c_str(), static_cast<size_t>(bytes));
  return gpu::kSuccess;
}
EXPORTED Code hipDeviceGetAttribute(int* value, DeviceAttribute attribute, int) {
  const FakeHip& told = Machine::get().told;
  switch (attribute) {
    case DeviceAttribute::kClockRate: *value = 2100000; break;
    case DeviceAttribute::kL2CacheSize: *value = 4 << 20; break;  // of one die
    case DeviceAttribute::kMultiprocessorCount: *value = told.units; break;
    case DeviceAttribute::kSharedPerBlock:
    case DeviceAttribute::kSharedPerMultiprocessor: *value = told.lds_bytes; break;
  }
  return gpu::kSuccess;
}
EXPORTED Code hipDeviceTotalMem(size_t* bytes, int) {
  *bytes = Machine::get().told.memory_bytes;
  return gpu::kSuccess;
}
EXPORTED Code hipGetDevicePropertiesR0600(void* properties, int device) {
  return fill_properties(properties, device, hip::kArchNameAt);
}
EXPORTED Code hipGetDeviceProperties(void* properties, int device) {
  return fill_properties(properties, device, hip::kArchNameAtOld);
}
EXPORTED Code hipDeviceSynchronize() {
  return call("hipDeviceSynchronize", [](Machine& m) { return m.wait(m.current()); });
}

EXPORTED Code hipMalloc(void** data, size_t bytes) {
  return call("hipMalloc",
              [&](Machine& m) -> Code { return m.forbidden() ? kFakeCaptureUnsupported : m.allocate(bytes, data); });
}
EXPORTED Code hipFree(void* data) {
  return call("hipFree", [&](Machine& m) -> Code { return m.forbidden() ? kFakeCaptureUnsupported : m.release(data); });
}
EXPORTED Code hipMemGetInfo(size_t* free_bytes, size_t* total) {
  *total = Machine::get().told.memory_bytes;
  *free_bytes = std::min(*total, static_cast<size_t>(available_host_memory()));
  return gpu::kSuccess;
}
EXPORTED Code hipMemcpyHtoD(void* to, const void* from, size_t bytes) {
  return call("hipMemcpyHtoD", [&](Machine& m) -> Code {
    if (const Code code = m.wait(m.current()); code != gpu::kSuccess) return code;
    if (m.owner(to, bytes) < 0) return kFakeInvalidValue;
    std::memcpy(to, from, bytes);
    m.written(to, bytes);
    return gpu::kSuccess;
  });
}
EXPORTED Code hipMemcpyDtoH(void* to, const void* from, size_t bytes) {
  return call("hipMemcpyDtoH", [&](Machine& m) -> Code {
    if (const Code code = m.wait(m.current()); code != gpu::kSuccess) return code;
    if (m.owner(from, bytes) < 0) return kFakeInvalidValue;
    std::memcpy(to, from, bytes);
    return gpu::kSuccess;
  });
}
EXPORTED Code hipMemcpyDtoDAsync(void* to, const void* from, size_t bytes, void* stream) {
  return call("hipMemcpyDtoDAsync", [&](Machine& m) -> Code {
    FakeStream* const on = m.stream(stream);
    if (on == nullptr) return kFakeInvalidHandle;
    if (m.owner(to, bytes) < 0 || m.owner(from, bytes) < 0) return kFakeInvalidValue;
    m.enqueue(*on, [=, &m] {
      std::memmove(to, from, bytes);
      m.copied(to, from, bytes);
    });
    return gpu::kSuccess;
  });
}
EXPORTED Code hipMemsetD8Async(void* to, unsigned char value, size_t bytes, void* stream) {
  return call("hipMemsetD8Async", [&](Machine& m) -> Code {
    FakeStream* const on = m.stream(stream);
    if (on == nullptr) return kFakeInvalidHandle;
    if (m.owner(to, bytes) < 0) return kFakeInvalidValue;
    m.enqueue(*on, [=, &m] {
      std::memset(to, value, bytes);
      m.written(to, bytes);
    });
    return gpu::kSuccess;
  });
}

EXPORTED Code hipModuleLoadData(void** module, const void* image) {
  return call("hipModuleLoadData", [&](Machine& m) -> Code {
    if (m.forbidden()) return kFakeCaptureUnsupported;
    FakeModule* made = nullptr;
    const Code code = m.load(image, &made);
    if (code == gpu::kSuccess) m.modules.insert(*module = made);
    return code;
  });
}
EXPORTED Code hipModuleUnload(void* module) {
  return call("hipModuleUnload", [&](Machine& m) -> Code {
    if (m.modules.erase(module) == 0) return kFakeInvalidHandle;
    --m.told.live_modules;
    delete static_cast<FakeModule*>(module);
    return gpu::kSuccess;
  });
}
EXPORTED Code hipModuleGetFunction(void** function, void* module, const char* name) {
  return call("hipModuleGetFunction", [&](Machine& m) -> Code {
    if (!m.modules.contains(module)) return kFakeInvalidHandle;
    auto made = std::make_unique<FakeFunction>();
    made->module = static_cast<FakeModule*>(module);
    made->name = name;
    if (made->module->object.object != nullptr) {
      const Result<emu::KernelEntry> entry = made->module->object.entry(name);
      if (!entry) return kFakeNotFound;
      made->entry = *entry;
    }
    *function = made.get();
    m.functions.push_back(std::move(made));
    return gpu::kSuccess;
  });
}
EXPORTED Code hipFuncGetAttribute(int* value, FunctionAttribute attribute, void*) {
  const FakeHip& told = Machine::get().told;
  *value = attribute == FunctionAttribute::kMaxThreadsPerBlock ? told.max_threads : told.static_lds;
  return gpu::kSuccess;
}
EXPORTED Code hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                    unsigned, unsigned, unsigned lds_bytes, void* stream, void**, void** extra) {
  return call("hipModuleLaunchKernel", [&](Machine& m) -> Code {
    const FakeFunction kernel = *static_cast<FakeFunction*>(function);
    FakeStream* const on = m.stream(stream);
    if (on == nullptr || kernel.module->device != on->device) return kFakeInvalidHandle;
    FakeHip::Launch launch{on->device, stream, {grid_x, grid_y, grid_z}, block_x, lds_bytes, kernel.name, {}};
    if (extra != nullptr) launch.args.assign(static_cast<const char*>(extra[1]), *static_cast<size_t*>(extra[3]));
    m.enqueue(*on, [=, &m] { m.run(kernel, launch); });
    return gpu::kSuccess;
  });
}
