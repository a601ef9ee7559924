// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/tma.cuh: boxes of rows of 128 bytes under the 128-byte swizzle.
#pragma once

#include "emulated/cuda/host_tensor_map.hpp"
#include "tile/common/tensor_map.hpp"
#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

inline unsigned long long evict_first() { return 0; }
inline unsigned long long read_once(long long) { return 0; }
inline void prefetch_map(const TensorMap&) {}

// Into a block of the cluster.
inline void load_box_of(unsigned block, const TensorMap& map, void* to, Barrier& barrier, int c0, int c1, int c2) {
  emulated::HostTensorMap box;
  std::memcpy(&box, map.bytes, sizeof(box));
  const unsigned at = shared_address(to);
  if (!box.swizzled || at % 1024 != 0) emulated::fail("a box that does not begin at a multiple of 1024");
  if (emulated::shared_at(at, 16) == nullptr || emulated::shared_at(at + box.box[1] * 128 - 16, 16) == nullptr) return;
  std::memset(emulated::shared_memory_of(block) + at, 0xFF, box.box[1] * 128);  // until it lands
  const auto land = [box, at, c0, c1, c2] {
    for (unsigned row = 0; row < box.box[1]; ++row) {
      for (unsigned i = 0; i < box.box[0]; ++i) {
        const auto size = static_cast<unsigned>(box.strides[0]);
        std::byte* const element = emulated::shared_memory + swizzle_128(at + row * 128 + i * size);
        const auto inside = [&](size_t d, long long c) { return c >= 0 && c < static_cast<long long>(box.dims[d]); };
        const long long c[] = {c0 + static_cast<long long>(i), c1 + static_cast<long long>(row), c2};
        if (inside(0, c[0]) && inside(1, c[1]) && inside(2, c[2])) {
          const std::byte* from = box.address;
          for (size_t d = 0; d < 3; ++d) from += c[d] * static_cast<long long>(box.strides[d]);
          std::memcpy(element, from, size);
        } else {
          std::memset(element, 0, size);
        }
      }
    }
  };
  copies_under_way[{emulated::block_of_cluster(block), &barrier}].push_back({land, static_cast<int>(box.box[1] * 128)});
}
inline void load_box(const TensorMap& map, void* to, Barrier& barrier, int c0, int c1, int c2) {
  load_box_of(emulated::block_in_cluster(), map, to, barrier, c0, c1, c2);
}
inline void load_box_once(const TensorMap& map, void* to, Barrier& barrier, unsigned long long, int c0, int c1,
                          int c2) {
  load_box(map, to, barrier, c0, c1, c2);
}
inline void load_box_multicast(const TensorMap& map, void* to, Barrier& barrier, unsigned short blocks, int c0, int c1,
                               int c2) {
  for (unsigned block = 0; blocks >> block != 0; ++block) {
    if ((blocks >> block & 1) != 0) load_box_of(block, map, to, barrier, c0, c1, c2);
  }
}

}  // namespace tilewright::sm90
