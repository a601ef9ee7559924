// SPDX-License-Identifier: MIT
// What GPUs of all vendors do alike as a device: memory, workspaces, waiting, timed graphs.
#pragma once

#include <memory>
#include <typeinfo>

#include "device/device.hpp"
#include "device/gpu/graph_burst.hpp"
#include "device/gpu/runtime.hpp"
#include "device/gpu/stream_workspaces.hpp"

namespace tilewright::gpu {

// The device is made current for each call and the caller's put back, so that neither the caller's thread nor its current device
// matters.
class GpuDevice : public Device {
 public:
  const DeviceSpec& spec() const override { return spec_; }
  Result<void*> allocate(int64_t bytes) override;
  void deallocate(void* data, int64_t bytes) override;
  Result<Workspace> workspace(int64_t bytes, void* stream) override { return workspaces_->get(bytes, stream); }
  Result<void*> zeros(int64_t bytes, void* stream) override { return workspaces_->zeros(bytes, stream); }
  bool host_memory() const override { return false; }
  Status copy_from_host(void* to, const void* from, int64_t bytes) override;
  Status copy_to_host(void* to, const void* from, int64_t bytes) override;
  Status fill(void* to, uint8_t value, int64_t bytes) override;
  Status synchronize() override;
  int64_t available_memory() override;
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall& call, int first_turn, int count) override;

 protected:
  GpuDevice(std::unique_ptr<const Runtime> runtime, DeviceSpec spec)
      : spec_(std::move(spec)),
        runtime_(std::move(runtime)),
        workspaces_(std::make_unique<StreamWorkspaces>(*runtime_)),
        burst_streams_(std::make_unique<BurstStreams>(*runtime_)) {}

  const std::string& where() const { return runtime_->name(); }
  // Ok where the artifact's target runs here and it is of the kind, which messages call `what`.
  Status check_artifact(const Artifact& artifact, ArtifactKind kind, std::string_view what) const;
  // The kernel, if this device has loaded it.
  template <class Kernel>
  Result<const Kernel*> loaded_here(const LoadedKernel& kernel) const {
    if (typeid(kernel) != typeid(Kernel)) return refuse_kernel("another kind of device");
    const auto& own = static_cast<const Kernel&>(kernel);
    if (own.device_index() != spec_.id.index) {
      return refuse_kernel(to_string(DeviceId{spec_.id.kind, own.device_index()}));
    }
    return &own;
  }
  // While the device is current; the result with the library's words.
  template <class Body>
  Status on_device(std::string_view what, Body body) const {
    const DeviceScope scope(*runtime_);
    const Code code = scope.code() == kSuccess ? body() : scope.code();
    return code == kSuccess ? Status() : runtime_->check(code, where() + ": " + std::string(what));
  }

  Status refuse_kernel(std::string_view loaded_by) const;

  DeviceSpec spec_;
  const std::unique_ptr<const Runtime> runtime_;
  std::unique_ptr<StreamWorkspaces> workspaces_;
  std::unique_ptr<BurstStreams> burst_streams_;
};

// Part of arch_specs.json that carries the marketing name, else the name itself in lower case: "nvidia_h200_nvl".
std::string part_of_name(const std::string& name);

// The file of an artifact that has no image.
Result<std::vector<std::byte>> read_artifact(const Artifact& artifact);

}  // namespace tilewright::gpu
