// SPDX-License-Identifier: MIT
#include "device/absent_device.hpp"

#include <fmt/format.h>

#include "device/cuda/tensor_maps.hpp"

namespace tilewright {
namespace {

class AbsentKernel final : public LoadedKernel {
 public:
  explicit AbsentKernel(Artifact artifact) : artifact(std::move(artifact)) {}
  const Artifact artifact;
};

class AbsentDevice final : public Device {
 public:
  explicit AbsentDevice(DeviceSpec spec) : spec_(std::move(spec)) {}

  const DeviceSpec& spec() const override { return spec_; }
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) override {
    if (!runs_on(artifact.target, spec_.arch->target)) {
      return Status(StatusCode::kUnsupported, fmt::format("'{}' is code for target '{}', allowed: what '{}' runs",
                                                          artifact.key.empty() ? artifact.entry : artifact.key,
                                                          artifact.target, spec_.arch->target));
    }
    return std::shared_ptr<const LoadedKernel>(std::make_shared<AbsentKernel>(artifact));
  }
  Status launch(const LoadedKernel&, std::span<const std::byte>, const LaunchShape&, const LaunchContext&) override {
    return refuse("launch");
  }
  Result<void*> allocate(int64_t) override { return refuse("allocate"); }
  void deallocate(void*, int64_t) override {}
  Result<Workspace> workspace(int64_t, void*) override { return refuse("workspace"); }
  bool host_memory() const override { return false; }
  Status copy_from_host(void*, const void*, int64_t) override { return refuse("copy"); }
  Status copy_to_host(void*, const void*, int64_t) override { return refuse("copy"); }
  Status fill(void*, uint8_t, int64_t) override { return refuse("fill"); }
  Status synchronize() override { return {}; }
  int64_t available_memory() override { return spec_.memory_bytes; }
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall&, int, int) override { return refuse("burst"); }
  Status encode_tensor_map(const TensorMapSpec& map, std::byte*) const override {
    return cuda::tensor_map_arguments(map).status();
  }
  Result<DeviceLimits> measure_limits(double, const ProbeCompiler&) override { return refuse("limits"); }

 private:
  Status refuse(std::string_view what) const {
    return Status(StatusCode::kUnsupported, fmt::format("{}: {} is not here, nothing runs on it", what, spec_.name));
  }
  const DeviceSpec spec_;
};

}  // namespace

DeviceSpec spec_of_part(const ArchSpec& arch, const PartSpec& part) {
  DeviceSpec device;
  device.id = {arch.vendor == ArchVendor::kAmd ? DeviceKind::kHip : DeviceKind::kCuda, 0};
  device.arch = &arch;
  for (const ArchSpec* base = &arch; base != nullptr; base = find_arch(base->base)) device.targets.push_back(base);
  device.name = device.part = part.name;
  device.units = part.units;
  device.l1_bytes = arch.shared_bytes;
  device.l2_bytes = part.l2_bytes;
  device.l3_bytes = part.last_level_bytes;
  device.memory_bytes = static_cast<int64_t>(part.memory_gib * (1 << 30));
  return device;
}

std::unique_ptr<Device> make_absent_device(DeviceSpec spec) { return std::make_unique<AbsentDevice>(std::move(spec)); }

Result<Artifact> absent_artifact(const LoadedKernel& kernel) {
  const auto* const own = dynamic_cast<const AbsentKernel*>(&kernel);
  if (own == nullptr) return Status(StatusCode::kInternal, "the kernel was loaded by a device that is here");
  return own->artifact;
}

}  // namespace tilewright
