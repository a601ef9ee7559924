// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/byte_copy.cuh: bytes land when somebody waits at the barrier where they count.
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

inline void copy_bytes(void* to, const void* from, unsigned bytes, Barrier& barrier) {
  if (bytes % 16 != 0 || shared_address(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    emulated::fail("bytes that are no multiple of 16");
  }
  if (emulated::shared_at(shared_address(to), 16) == nullptr ||
      emulated::shared_at(shared_address(to) + bytes - 16, 16) == nullptr) {
    return;
  }
  std::memset(to, 0xFF, bytes);  // until they land
  copies_under_way[{emulated::running_block(), &barrier}].push_back(
      {[=] { std::memcpy(to, from, bytes); }, static_cast<int>(bytes)});
}
inline void copy_bytes_once(void* to, const void* from, unsigned bytes, Barrier& barrier, unsigned long long) {
  copy_bytes(to, from, bytes, barrier);
}

}  // namespace tilewright::sm90
