// SPDX-License-Identifier: MIT
// An NVIDIA GPU as a device: its primary context, made current for each call and put back, so that neither the caller's
// thread nor its current device matters.
#include "device/cuda/cuda_device.hpp"

#include <fmt/format.h>
#include <atomic>
#include <bit>

#include <cstring>
#include <typeinfo>

#include "device/cuda/cuda_kernel.hpp"
#include "device/cuda/device_info.hpp"
#include "device/cuda/driver/context_scope.hpp"
#include "device/cuda/graph_burst.hpp"
#include "device/cuda/limits/cuda_limits.hpp"
#include "device/cuda/limits/power_state.hpp"
#include "device/cuda/stream_workspaces.hpp"
#include "device/cuda/tensor_maps.hpp"
#include "device/cuda/vendor/cuda_libraries.hpp"

namespace tilewright {
namespace cuda {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(const Place& place, DeviceSpec spec) : place_(place), d_(*place.driver), spec_(std::move(spec)) {
    spec_.vendor = libraries_.get();
  }
  ~CudaDevice() override {
    libraries_.reset();
    workspaces_.reset();
    if (anchor_ != nullptr) {
      const ContextScope scope(d_, place_.context);
      d_.cuMemFree_v2(anchor_);
    }
    d_.cuDevicePrimaryCtxRelease_v2(place_.device);
  }

  const DeviceSpec& spec() const override { return spec_; }

  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) override {
    const std::string& name = artifact.key.empty() ? artifact.entry : artifact.key;
    if (!runs_on(artifact.target, spec_.arch->target)) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("{}: '{}' is code for target '{}', this device runs '{}'; not "
                                "loaded",
                                where(), name, artifact.target, spec_.arch->target));
    }
    if (artifact.kind != ArtifactKind::kCubin) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("{}: '{}' is no cubin; a CUDA device loads nothing else", where(), name));
    }
    return CudaKernel::load(place_, artifact);
  }

  Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                const LaunchContext& context) override {
    if (typeid(kernel) != typeid(CudaKernel)) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: launch: the kernel was loaded by another kind of device", where()));
    }
    const auto& own = static_cast<const CudaKernel&>(kernel);
    if (own.device_index() != place_.index) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: launch: the kernel was loaded by cuda:{}", where(), own.device_index()));
    }
    return own.launch(args, shape, context);
  }

  Result<void*> allocate(int64_t bytes) override {
    if (bytes < 0) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: allocate: bytes = {}, allowed: 0 or more", where(), bytes));
    }
    const ContextScope scope(d_, place_.context);
    const RelaxedCapture relaxed(d_);
    DevicePointer data = nullptr;
    CuResult result = scope.result();
    if (result == CuResult::kSuccess) result = d_.cuMemAlloc_v2(&data, static_cast<size_t>(bytes < 1 ? 1 : bytes));
    if (Status s = check(d_, result, fmt::format("{}: {} bytes of memory", where(), bytes)); !s) return s;
    return data;
  }
  void deallocate(void* data, int64_t) override {
    if (data == nullptr) return;
    const ContextScope scope(d_, place_.context);
    d_.cuMemFree_v2(data);
  }
  Result<Workspace> workspace(int64_t bytes, void* stream) override { return workspaces_->get(bytes, stream); }
  Result<void*> zeros(int64_t bytes, void* stream) override { return workspaces_->zeros(bytes, stream); }

  bool host_memory() const override { return false; }
  Status copy_from_host(void* to, const void* from, int64_t bytes) override {
    return in_context("copy from the host", [&] { return d_.cuMemcpyHtoD_v2(to, from, static_cast<size_t>(bytes)); });
  }
  Status copy_to_host(void* to, const void* from, int64_t bytes) override {
    return in_context("copy to the host", [&] { return d_.cuMemcpyDtoH_v2(to, from, static_cast<size_t>(bytes)); });
  }
  Status fill(void* to, uint8_t value, int64_t bytes) override {
    return in_context("fill", [&] {
      const CuResult result = d_.cuMemsetD8Async(to, value, static_cast<size_t>(bytes), nullptr);
      return result == CuResult::kSuccess ? d_.cuStreamSynchronize(nullptr) : result;
    });
  }
  Status synchronize() override {
    return in_context("waiting for its kernels", [&] { return d_.cuCtxSynchronize(); });
  }
  int64_t available_memory() override {
    size_t free_bytes = 0, total = 0;
    const Status s = in_context("memory", [&] { return d_.cuMemGetInfo_v2(&free_bytes, &total); });
    return s ? static_cast<int64_t>(free_bytes) : 0;
  }
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall& call, int first_turn, int count) override {
    return make_graph_burst(place_, call, first_turn, count);
  }

  std::string power_state() const override { return cuda::power_state(place_); }

  Status encode_tensor_map(const TensorMapSpec& spec, std::byte* map) const override {
    if (place_.capability_major < 9) return Device::encode_tensor_map(spec, map);
    Result<TensorMapArguments> arguments = tensor_map_arguments(spec);
    if (!arguments) return arguments.status();
    const TensorMapArguments& a = *arguments;
    // Its address comes with each call; until then that of memory which is there.
    Result<DevicePointer> address = anchor();
    if (!address) return address.status();
    alignas(64) std::byte encoded[kTensorMapBytes];
    Status s = in_context("tensor map", [&] {
      return d_.cuTensorMapEncodeTiled(encoded, a.type, a.rank, *address, a.dims.data(), a.strides.data(), a.box.data(),
                                       a.element_strides.data(), a.interleave, a.swizzle, a.promotion, a.out_of_bounds);
    });
    if (s) s = look_for_address(encoded);
    if (!s) return s;
    std::memcpy(map, encoded, kTensorMapBytes);
    return {};
  }

  Status set_tensor_map_address(std::byte* map, const void* address) const override {
    if (reinterpret_cast<uintptr_t>(address) % kTensorMapAlignment != 0 || address == nullptr) {
      return Status(StatusCode::kUnsupported, fmt::format("{}: tensor map: address {}, allowed: multiples of {}",
                                                          where(), address, kTensorMapAlignment));
    }
    if (address_stands_first_.load(std::memory_order_relaxed)) {
      std::memcpy(map, &address, sizeof(address));
      return {};
    }
    return replace_address(map, address);
  }

  Result<DeviceLimits> measure_limits(double budget_seconds, const ProbeCompiler& compile) override {
    return measure_cuda_limits(*this, place_, budget_seconds, compile);
  }

 private:
  static constexpr size_t kTensorMapBytes = 128;

  std::string where() const { return to_string(spec_.id); }

  template <class Body>
  Status in_context(std::string_view what, Body body) const {
    const ContextScope scope(d_, place_.context);
    const CuResult result = scope.result() == CuResult::kSuccess ? body() : scope.result();
    return result == CuResult::kSuccess ? Status() : check(d_, result, fmt::format("{}: {}", where(), what));
  }

  Status replace_address(std::byte* map, const void* address) const {
    return in_context("address of a tensor map",
                      [&] { return d_.cuTensorMapReplaceAddress(map, const_cast<void*>(address)); });
  }
  // Where a map keeps its address is the driver's affair. Calls bring theirs without asking it as long as all that the
  // driver changes for another address is the first eight bytes, to that address.
  Status look_for_address(const std::byte* encoded) const {
    alignas(64) std::byte theirs[kTensorMapBytes], ours[kTensorMapBytes];
    std::memcpy(theirs, encoded, kTensorMapBytes);
    std::memcpy(ours, encoded, kTensorMapBytes);
    const auto other = std::bit_cast<void*>(uintptr_t{0x7E5A3C2D1000});
    if (Status s = replace_address(theirs, other); !s) return s;
    std::memcpy(ours, &other, sizeof(other));
    if (std::memcmp(theirs, ours, kTensorMapBytes) != 0) address_stands_first_.store(false, std::memory_order_relaxed);
    return {};
  }

  Result<DevicePointer> anchor() const {
    const std::lock_guard lock(anchor_mutex_);
    if (anchor_ != nullptr) return anchor_;
    const RelaxedCapture relaxed(d_);
    const Status s = in_context("memory", [&] { return d_.cuMemAlloc_v2(&anchor_, 256); });
    if (!s) return s;
    return anchor_;
  }

  const Place place_;
  const Driver& d_;
  DeviceSpec spec_;
  std::unique_ptr<CudaLibraries> libraries_ = std::make_unique<CudaLibraries>(place_, spec_.units);
  std::unique_ptr<StreamWorkspaces> workspaces_ = std::make_unique<StreamWorkspaces>(place_);
  mutable std::atomic<bool> address_stands_first_{true};
  mutable std::mutex anchor_mutex_;
  mutable DevicePointer anchor_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Device>> make_device(const Driver& driver, int index) {
  Result<DeviceSpec> spec = read_device_spec(driver, index);
  if (!spec) return spec.status();
  Place place{.driver = &driver, .index = index};
  const std::string where = to_string(spec->id);
  if (Status s = check(driver, driver.cuDeviceGet(&place.device, index), where); !s) return s;
  const auto read = [&](DeviceAttribute which, int& value) {
    return check(driver, driver.cuDeviceGetAttribute(&value, which, place.device), where);
  };
  if (Status s = read(DeviceAttribute::kCapabilityMajor, place.capability_major); !s) return s;
  if (Status s = read(DeviceAttribute::kSharedPerBlockOptin, place.shared_limit); !s) return s;
  if (Status s = check(driver, driver.cuDevicePrimaryCtxRetain(&place.context, place.device),
                       fmt::format("{}: primary context", where));
      !s) {
    return s;
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(place, std::move(*spec)));
}

}  // namespace cuda

Result<int> cuda_device_count() {
  Result<const cuda::Driver*> driver = cuda::driver();
  if (!driver) return driver.status();
  int count = 0;
  if (Status s = cuda::check(**driver, (*driver)->cuDeviceGetCount(&count), "cuda: devices"); !s) return s;
  return count;
}

Result<std::unique_ptr<Device>> make_cuda_device(int index) {
  Result<int> count = cuda_device_count();
  if (!count) return count.status();
  if (index < 0 || index >= *count) {
    return Status(StatusCode::kNotFound, fmt::format("cuda:{}: no such device; this process sees {} CUDA device{}",
                                                     index, *count, *count == 1 ? "" : "s"));
  }
  return cuda::make_device(**cuda::driver(), index);
}

}  // namespace tilewright
