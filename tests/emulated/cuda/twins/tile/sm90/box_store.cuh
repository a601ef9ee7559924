// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/box_store.cuh: shared memory is read when the thread that asked waits, and not before; what nobody
// waits for is never written.
#pragma once

#include <array>
#include <vector>

#include "emulated/cuda/host_tensor_map.hpp"
#include "tile/common/tensor_map.hpp"
#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

// Of a thread: boxes asked for, and those whose group has ended.
struct StoresUnderWay {
  std::vector<std::function<void()>> open, ended;
};
inline std::array<StoresUnderWay, emulated::kMostThreads> stores_under_way;

inline void show_copy_engine() {}
inline void store_box(const TensorMap& map, unsigned from, int c0, int c1, int c2) {
  emulated::HostTensorMap box;
  std::memcpy(&box, map.bytes, sizeof(box));
  const auto size = static_cast<unsigned>(box.strides[0]), row_bytes = box.box[0] * size;
  if (from % (box.swizzled ? 1024 : 128) != 0) emulated::fail("a box that does not begin where the copy engine reads");
  if (emulated::shared_at(from, 16) == nullptr ||
      emulated::shared_at(from + box.box[1] * row_bytes - 16, 16) == nullptr)
    return;
  const std::byte* const memory = emulated::shared_memory;
  stores_under_way[emulated::running_thread()].open.push_back([=] {
    for (unsigned row = 0; row < box.box[1]; ++row) {
      for (unsigned i = 0; i < box.box[0]; ++i) {
        const unsigned at = from + row * row_bytes + i * size;
        const long long c[] = {c0 + static_cast<long long>(i), c1 + static_cast<long long>(row), c2};
        std::byte* to = const_cast<std::byte*>(box.address);
        bool inside = true;
        for (size_t d = 0; d < 3; ++d) {
          inside = inside && c[d] >= 0 && c[d] < static_cast<long long>(box.dims[d]);
          to += c[d] * static_cast<long long>(box.strides[d]);
        }
        if (inside) std::memcpy(to, memory + (box.swizzled ? swizzle_128(at) : at), size);
      }
    }
  });
}
inline void end_stores() {
  StoresUnderWay& mine = stores_under_way[emulated::running_thread()];
  for (auto& store : mine.open) mine.ended.push_back(std::move(store));
  mine.open.clear();
}
inline void wait_stores_read() {
  StoresUnderWay& mine = stores_under_way[emulated::running_thread()];
  for (const auto& store : mine.ended) store();
  mine.ended.clear();
}
inline void wait_stores() { wait_stores_read(); }

}  // namespace tilewright::sm90
