// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/tma.cuh: boxes of rows of 128 bytes under the 128-byte swizzle, and plain ones.
#pragma once

#include <array>

#include "emulated/cuda/host_tensor_map.hpp"
#include "tile/common/tensor_map.hpp"
#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

inline unsigned long long evict_first() { return 0; }
inline unsigned long long read_once(long long) { return 0; }
inline void prefetch_map(const TensorMap&) {}

// Into a block of the cluster.
inline void load_box_of(unsigned block, const TensorMap& map, void* to, Barrier& barrier, std::array<int, 4> first) {
  emulated::HostTensorMap box;
  std::memcpy(&box, map.bytes, sizeof(box));
  const auto size = static_cast<unsigned>(box.strides[0]), row = box.box[0] * size, rows = box.box[1] * box.box[2];
  const unsigned at = shared_address(to), bytes = rows * row;
  if (at % (box.swizzled ? 1024 : 128) != 0) emulated::fail("a box that begins inside a line, or what swizzles");
  if (emulated::shared_at(at, 16) == nullptr || emulated::shared_at(at + bytes - 16, 16) == nullptr) return;
  std::memset(emulated::shared_memory_of(block) + at, 0xFF, bytes);  // until it lands
  const auto land = [=] {
    for (unsigned i = 0; i < rows * box.box[0]; ++i) {
      const unsigned place = at + i * size;
      std::byte* const element = emulated::shared_memory + (box.swizzled ? swizzle_128(place) : place);
      const unsigned in_row = i % box.box[0], of_row = i / box.box[0];
      const unsigned offset[] = {in_row, of_row % box.box[1], of_row / box.box[1], 0};
      const std::byte* from = box.address;
      bool inside = true;
      for (size_t d = 0; d < 4; ++d) {
        const long long c = first[d] + static_cast<long long>(offset[d]);
        inside = inside && c >= 0 && c < static_cast<long long>(box.dims[d]);
        from += c * static_cast<long long>(box.strides[d]);
      }
      if (inside) {
        std::memcpy(element, from, size);
      } else {
        std::memset(element, 0, size);
      }
    }
  };
  copies_under_way[{emulated::block_of_cluster(block), &barrier}].push_back({land, static_cast<int>(bytes)});
}
inline void load_box(const TensorMap& map, void* to, Barrier& barrier, int c0, int c1, int c2) {
  load_box_of(emulated::block_in_cluster(), map, to, barrier, {c0, c1, c2, 0});
}
inline void load_box(const TensorMap& map, void* to, Barrier& barrier, int c0, int c1, int c2, int c3) {
  load_box_of(emulated::block_in_cluster(), map, to, barrier, {c0, c1, c2, c3});
}
inline void load_box_once(const TensorMap& map, void* to, Barrier& barrier, unsigned long long, int c0, int c1,
                          int c2) {
  load_box(map, to, barrier, c0, c1, c2);
}
inline void load_box_once(const TensorMap& map, void* to, Barrier& barrier, unsigned long long, int c0, int c1, int c2,
                          int c3) {
  load_box(map, to, barrier, c0, c1, c2, c3);
}
inline void load_box_multicast(const TensorMap& map, void* to, Barrier& barrier, unsigned short blocks, int c0, int c1,
                               int c2) {
  for (unsigned block = 0; blocks >> block != 0; ++block) {
    if ((blocks >> block & 1) != 0) load_box_of(block, map, to, barrier, {c0, c1, c2, 0});
  }
}

}  // namespace tilewright::sm90
