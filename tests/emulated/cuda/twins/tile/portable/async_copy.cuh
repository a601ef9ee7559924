// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/async_copy.cuh. Addresses of shared memory count from its beginning.
#pragma once

#include <cstring>

#include "emulated/cuda/host_block.hpp"

namespace tilewright {

inline unsigned shared_address(const void* data) {
  return static_cast<unsigned>(static_cast<const std::byte*>(data) - emulated::shared_memory);
}
inline unsigned char* dynamic_shared() { return reinterpret_cast<unsigned char*>(emulated::shared_memory); }

template <int kBytes>
void copy_async(unsigned to, const void* from, int valid) {
  emulated::begin_copy(to, from, kBytes, valid);
}
inline void commit_copies() { emulated::commit_group(); }
template <int kPending>
void wait_copies() {
  emulated::wait_for_groups(kPending);
}

inline void load_shared(float (&v)[4], unsigned from) {
  if (const std::byte* data = emulated::shared_at(from, sizeof(v))) std::memcpy(v, data, sizeof(v));
}
inline void store_shared(unsigned to, unsigned word) {
  if (std::byte* data = emulated::shared_at(to, sizeof(word))) std::memcpy(data, &word, sizeof(word));
}

}  // namespace tilewright
