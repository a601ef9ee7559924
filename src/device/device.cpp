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

Result<std::unique_ptr<Device>> make_device(DeviceId id) {
  switch (id.kind) {
    case DeviceKind::kCpu: return make_cpu_device(0);
    case DeviceKind::kCuda: return make_cuda_device(id.index);
    case DeviceKind::kEmulated: return make_emulated_device(id.index);
    case DeviceKind::kHip: break;
  }
  return Status(StatusCode::kUnsupported, fmt::format("{}: there are no devices of this kind", to_string(id)));
}

}  // namespace tilewright
