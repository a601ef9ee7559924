// SPDX-License-Identifier: MIT
// An NVIDIA GPU as a device: its primary context.
#include "device/cuda/cuda_device.hpp"

#include <fmt/format.h>
#include <atomic>
#include <bit>

#include <cstring>

#include "device/cuda/cuda_kernel.hpp"
#include "device/cuda/device_info.hpp"
#include "device/cuda/driver/context_scope.hpp"
#include "device/cuda/limits/cuda_limits.hpp"
#include "device/cuda/limits/power_state.hpp"
#include "device/cuda/tensor_maps.hpp"
#include "device/cuda/vendor/cuda_libraries.hpp"
#include "device/gpu/gpu_device.hpp"

namespace tilewright {
namespace cuda {
namespace {

class CudaDevice final : public gpu::GpuDevice {
 public:
  CudaDevice(const Place& place, DeviceSpec spec)
      : GpuDevice(std::make_unique<CudaRuntime>(*place.driver, place.context, place.device, place.index),
                  std::move(spec)),
        place_(place),
        d_(*place.driver) {
    spec_.vendor = libraries_.get();
  }
  ~CudaDevice() override {
    if (anchor_ == nullptr) return;
    const ContextScope scope(d_, place_.context);
    d_.free(anchor_);
  }

  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) override {
    if (Status s = check_artifact(artifact, ArtifactKind::kCubin, "cubin"); !s) return s;
    return CudaKernel::load(place_, artifact);
  }

  Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                const LaunchContext& context) override {
    const Result<const CudaKernel*> own = loaded_here<CudaKernel>(kernel);
    return own ? (*own)->launch(args, shape, context) : own.status();
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
    Status s = on_device("tensor map", [&] {
      return static_cast<gpu::Code>(d_.cuTensorMapEncodeTiled(encoded, a.type, a.rank, *address, a.dims.data(),
                                                              a.strides.data(), a.box.data(), a.element_strides.data(),
                                                              a.interleave, a.swizzle, a.promotion, a.out_of_bounds));
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

  Status replace_address(std::byte* map, const void* address) const {
    return on_device("address of a tensor map", [&] {
      return static_cast<gpu::Code>(d_.cuTensorMapReplaceAddress(map, const_cast<void*>(address)));
    });
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
    const Status s = on_device("memory", [&] { return d_.allocate(&anchor_, 256); });
    if (!s) return s;
    return anchor_;
  }

  const Place place_;
  const Driver& d_;
  std::unique_ptr<CudaLibraries> libraries_ = std::make_unique<CudaLibraries>(place_, spec_.units);
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
