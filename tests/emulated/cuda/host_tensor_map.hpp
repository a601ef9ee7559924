// SPDX-License-Identifier: MIT
// What stands in the place of a tensor map where the device is a host: four dimensions, the contiguous one first.
#pragma once

#include <cstdint>

namespace tilewright::emulated {

struct HostTensorMap {
  const std::byte* address;
  uint64_t dims[4], strides[4];  // elements; bytes, [0] is the element
  uint32_t box[4];               // elements; a fourth one is 1
  bool swizzled;                 // rows of 128 bytes
};

}  // namespace tilewright::emulated
