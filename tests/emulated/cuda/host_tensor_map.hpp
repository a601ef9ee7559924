// SPDX-License-Identifier: MIT
// What stands in the place of a tensor map where the device is a host: three dimensions, the contiguous one first.
#pragma once

#include <cstdint>

namespace tilewright::emulated {

struct HostTensorMap {
  const std::byte* address;
  uint64_t dims[3], strides[3];  // elements; bytes, [0] is the element
  uint32_t box[3];               // elements
  bool swizzled;                 // rows of 128 bytes
};

}  // namespace tilewright::emulated
