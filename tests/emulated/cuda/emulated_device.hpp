// SPDX-License-Identifier: MIT
// A CUDA device that runs kernels on the host (host_block.hpp). Plans of the CUDA families run on it with memory, guard
// zones, reference and bounds of every other device.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "emulated/cuda/host_block.hpp"
#include "emulated/cuda/host_tensor_map.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright::emulated {

// A kernel's function on its argument bytes.
class HostKernel final : public LoadedKernel {
 public:
  explicit HostKernel(void (*run)(const void* args)) : run(run) {}
  void (*const run)(const void* args);
};

class EmulatedCudaDevice final : public Device {
 public:
  explicit EmulatedCudaDevice(std::string_view target) : host_(make_cpu_device(1)) {
    spec_.arch = find_arch(target);
    spec_.targets = {spec_.arch};
    spec_.units = 4;  // few: problems that fit a test split K and fill waves
  }
  const DeviceSpec& spec() const override { return spec_; }
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact&) override {
    return Status(StatusCode::kUnsupported, "kernels of the host are given, not loaded");
  }
  Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                const LaunchContext&) override {
    const auto& function = dynamic_cast<const HostKernel&>(kernel);
    const char* failure = run_grid(
        shape.grid[0], shape.threads, shape.shared_bytes, [&] { function.run(args.data()); }, shape.cluster[0],
        shape.cooperative);
    return *failure == '\0' ? Status() : Status(StatusCode::kInternal, failure);
  }
  Result<void*> allocate(int64_t bytes) override { return host_->allocate(bytes); }
  void deallocate(void* data, int64_t bytes) override { host_->deallocate(data, bytes); }
  Result<Workspace> workspace(int64_t bytes, void* stream) override {
    Result<Workspace> got = host_->workspace(bytes, stream);
    if (got) std::memset(got->data, 0xFF, static_cast<size_t>(bytes));  // a NaN in every type
    return got;
  }
  Result<void*> zeros(int64_t bytes, void*) override {
    zeros_.resize(std::max(zeros_.size(), static_cast<size_t>(bytes)));
    return static_cast<void*>(zeros_.data());
  }
  // Whether kernels have left them so.
  bool zeros_are_left() const {
    return std::ranges::all_of(zeros_, [](std::byte b) { return b == std::byte{0}; });
  }
  Status encode_tensor_map(const TensorMapSpec& spec, std::byte* map) const override {
    static_assert(sizeof(HostTensorMap) <= sizeof(TensorMap));
    HostTensorMap made{};
    for (size_t i = 0; i < 4; ++i) {
      const bool there = i < spec.rank;
      made.dims[i] = there ? spec.dims[i] : 1, made.box[i] = there ? spec.box[i] : 1;
      made.strides[i] = there ? spec.strides[i] : 0;
    }
    made.swizzled = spec.swizzle == TensorMapSpec::Swizzle::k128;
    const uint64_t row_bytes = made.box[0] * made.strides[0];
    if ((spec.rank != 3 && spec.rank != 4) || (!made.swizzled && spec.swizzle != TensorMapSpec::Swizzle::kNone) ||
        row_bytes % 16 != 0 || (made.swizzled && row_bytes != 128) || made.box[3] != 1 || made.strides[1] % 16 != 0 ||
        made.strides[2] % 16 != 0 || made.strides[3] % 16 != 0) {
      return Status(StatusCode::kUnsupported, "boxes of this device are swizzled rows of 128 bytes, or plain ones");
    }
    std::memcpy(map, &made, sizeof(made));
    return {};
  }
  Status set_tensor_map_address(std::byte* map, const void* address) const override {
    std::memcpy(map, &address, sizeof(address));
    return {};
  }
  bool host_memory() const override { return true; }
  Status copy_from_host(void* to, const void* from, int64_t bytes) override {
    return host_->copy_from_host(to, from, bytes);
  }
  Status copy_to_host(void* to, const void* from, int64_t bytes) override {
    return host_->copy_to_host(to, from, bytes);
  }
  Status fill(void* to, uint8_t value, int64_t bytes) override { return host_->fill(to, value, bytes); }
  Status synchronize() override { return {}; }
  int64_t available_memory() override { return 0; }
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall&, int, int) override {
    return Status(StatusCode::kUnsupported, "an emulated device tells no times");
  }
  Result<DeviceLimits> measure_limits(double, const ProbeCompiler&) override {
    return Status(StatusCode::kUnsupported, "an emulated device has no limits");
  }

 private:
  std::unique_ptr<Device> host_;
  DeviceSpec spec_;
  std::vector<std::byte> zeros_;
};

}  // namespace tilewright::emulated
