// SPDX-License-Identifier: MIT
#include "device/device.hpp"

#include <fmt/format.h>

namespace tilewright {

Result<void*> Device::zeros(int64_t, void*) {
  return Status(StatusCode::kUnsupported, fmt::format("{}: this device keeps no zeros", spec().name));
}

Status Device::encode_tensor_map(const TensorMapSpec&, std::byte*) const {
  return Status(StatusCode::kUnsupported, fmt::format("{}: this device has no tensor maps", spec().name));
}

Status Device::set_tensor_map_address(std::byte*, const void*) const {
  return Status(StatusCode::kUnsupported, fmt::format("{}: this device has no tensor maps", spec().name));
}

Result<int> device_count(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu: return 1;
    case DeviceKind::kCuda: return cuda_device_count();
    case DeviceKind::kHip: return hip_device_count();
    case DeviceKind::kEmulated: return static_cast<int>(std::size(kEmulatedTargets));
  }
  return Status(StatusCode::kInvalidArgument, "no such kind of device");
}

Result<std::unique_ptr<Device>> make_device(DeviceId id) {
  switch (id.kind) {
    case DeviceKind::kCpu: return make_cpu_device(0);
    case DeviceKind::kCuda: return make_cuda_device(id.index);
    case DeviceKind::kHip: return make_hip_device(id.index);
    case DeviceKind::kEmulated: return make_emulated_device(id.index);
  }
  return Status(StatusCode::kInvalidArgument, "no such kind of device");
}

}  // namespace tilewright
