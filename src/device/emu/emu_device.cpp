// SPDX-License-Identifier: MIT
#include "device/emu/emu_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "device/cpu/pages.hpp"
#include "device/host_burst.hpp"
#include "device/host_memory.hpp"

namespace tilewright {
namespace emu {
namespace {

class EmuKernel final : public LoadedKernel {
 public:
  EmuKernel(EmulatedObject object, KernelEntry entry, std::string name)
      : object(std::move(object)), entry(entry), name(std::move(name)) {}
  const EmulatedObject object;
  const KernelEntry entry;
  const std::string name;
};

}  // namespace

Result<std::unique_ptr<EmuDevice>> EmuDevice::make(int index) {
  if (index < 0 || static_cast<size_t>(index) >= std::size(kEmulatedTargets)) {
    return Status(StatusCode::kNotFound,
                  fmt::format("emulated device {}: allowed: 0 to {}", index, std::size(kEmulatedTargets) - 1));
  }
  const Result<const ArchSpec*> arch = require_arch(kEmulatedTargets[index]);
  if (!arch) return arch.status();
  DeviceSpec spec;
  spec.id = {DeviceKind::kEmulated, index};
  spec.arch = *arch;
  for (const ArchSpec* a = spec.arch; a != nullptr; a = find_arch(a->base)) spec.targets.push_back(a);
  // It stands for the first part of the target: its tuned rows and its cost model choose as they would there.
  const PartSpec& part = spec.arch->parts.front();
  spec.name = fmt::format("emulated {}", spec.arch->target);
  spec.part = part.name;
  spec.units = part.units;
  spec.l2_bytes = part.l2_bytes;
  spec.l3_bytes = part.last_level_bytes;
  spec.memory_bytes = available_host_memory();
  spec.driver = "emulation";
  spec.emulated = true;
  return std::unique_ptr<EmuDevice>(new EmuDevice(std::move(spec)));
}

EmuDevice::~EmuDevice() {
  for (const auto& [data, allocation] : allocations_) unmap_pages(data, allocation.bytes);
}

Result<std::shared_ptr<const LoadedKernel>> EmuDevice::load(const Artifact& artifact) {
  const std::string& name = artifact.key.empty() ? artifact.entry : artifact.key;
  if (!runs_on(artifact.target, spec_.arch->target)) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: '{}' is code for target '{}', this device runs '{}'; not loaded",
                              to_string(spec_.id), name, artifact.target, spec_.arch->target));
  }
  if (artifact.kind != ArtifactKind::kEmulated) {
    return Status(
        StatusCode::kUnsupported,
        fmt::format("{}: '{}' is no emulated object; this device loads nothing else", to_string(spec_.id), name));
  }
  Result<std::shared_ptr<SharedObject>> object = artifact.image.empty()
                                                     ? SharedObject::open(artifact.path)
                                                     : SharedObject::open_image(artifact.image, artifact.entry);
  if (!object) return object.status();
  Result<EmulatedObject> loaded = load_emulated(std::move(*object), artifact.target);
  if (!loaded) return loaded.status();
  const Result<KernelEntry> entry = loaded->entry(artifact.entry);
  if (!entry) return entry.status();
  return std::shared_ptr<const LoadedKernel>(std::make_shared<EmuKernel>(std::move(*loaded), *entry, name));
}

Status EmuDevice::launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                         const LaunchContext&) {
  if (typeid(kernel) != typeid(EmuKernel)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: launch: the kernel was loaded by another kind of device", to_string(spec_.id)));
  }
  const auto& own = static_cast<const EmuKernel&>(kernel);
  EmulatedLaunch launch;
  launch.kernel = own.name;
  launch.grid = shape.grid;
  launch.block = {shape.threads, 1, 1};
  launch.lds_bytes = shape.shared_bytes;
  launch.arguments = args;
  const std::lock_guard lock(mutex_);
  const Result<EmulatedReport> report = run_emulated(own.object, own.entry, launch, memory_);
  if (!report) return report.status();
  counters_ += report->counters;
  const Status faults = report->status();
  if (faults.ok()) return {};
  return Status(faults.code(), fmt::format("{}: {}", to_string(spec_.id), faults.message()));
}

Result<void*> EmuDevice::allocate(int64_t bytes, const char* what) {
  if (bytes < 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: allocate: bytes = {}, allowed: 0 or more", to_string(spec_.id), bytes));
  }
  bytes = std::max<int64_t>(bytes, 1);
  Result<void*> data = map_pages(bytes);
  if (!data) return data;
  allocations_[*data] = {*data, bytes};
  memory_.add(what, *data, static_cast<size_t>(bytes), /*initialised=*/false);
  return data;
}

Result<void*> EmuDevice::allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return allocate(bytes, "memory");
}

void EmuDevice::deallocate(void* data, int64_t) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(data);
  if (found == allocations_.end()) return;
  memory_.remove(found->second.first);
  unmap_pages(data, found->second.bytes);
  allocations_.erase(found);
}

void EmuDevice::expose(void* data, void* first, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(data);
  if (found == allocations_.end()) return;
  memory_.remove(found->second.first);
  memory_.add("memory", first, static_cast<size_t>(bytes), /*initialised=*/false);
  found->second.first = first;
}

Result<Workspace> EmuDevice::workspace(int64_t bytes, void*) {
  if (bytes == 0) return Workspace{};
  const std::lock_guard lock(mutex_);
  if (bytes > workspace_.bytes) {
    Result<void*> made = allocate(bytes, "workspace");
    if (!made) return made.status();
    workspace_ = {*made, bytes};
  }
  memory_.forget(workspace_.first);
  return Workspace{workspace_.first, {}};
}

Result<void*> EmuDevice::zeros(int64_t bytes, void*) {
  const std::lock_guard lock(mutex_);
  if (bytes > zeros_.bytes) {
    Result<void*> made = allocate(bytes, "zeros");
    if (!made) return made.status();
    zeros_ = {*made, bytes};
    std::memset(zeros_.first, 0, static_cast<size_t>(bytes));
    memory_.set_initialised(zeros_.first, static_cast<size_t>(bytes));
  }
  return zeros_.first;
}

Status EmuDevice::copy_from_host(void* to, const void* from, int64_t bytes) {
  if (bytes <= 0) return {};
  const std::lock_guard lock(mutex_);
  std::memcpy(to, from, static_cast<size_t>(bytes));
  memory_.set_initialised(to, static_cast<size_t>(bytes));
  return {};
}

Status EmuDevice::copy_to_host(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

Status EmuDevice::fill(void* to, uint8_t value, int64_t bytes) {
  if (bytes <= 0) return {};
  const std::lock_guard lock(mutex_);
  std::memset(to, value, static_cast<size_t>(bytes));
  memory_.set_initialised(to, static_cast<size_t>(bytes));
  return {};
}

int64_t EmuDevice::available_memory() { return available_host_memory(); }

Result<std::unique_ptr<Burst>> EmuDevice::make_burst(const TurnedCall& call, int first_turn, int count) {
  return std::unique_ptr<Burst>(std::make_unique<HostBurst>(call, first_turn, count));
}

Result<DeviceLimits> EmuDevice::measure_limits(double, const ProbeCompiler&) {
  return Status(StatusCode::kUnsupported,
                fmt::format("{}: an emulated device has no limits to measure", to_string(spec_.id)));
}

Counters EmuDevice::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}
void EmuDevice::reset_counters() {
  const std::lock_guard lock(mutex_);
  counters_ = {};
}

}  // namespace emu

Result<std::unique_ptr<Device>> make_emulated_device(int index) {
  Result<std::unique_ptr<emu::EmuDevice>> device = emu::EmuDevice::make(index);
  if (!device) return device.status();
  return std::unique_ptr<Device>(std::move(*device));
}

}  // namespace tilewright
