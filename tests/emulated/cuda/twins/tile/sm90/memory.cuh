// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/memory.cuh. Addresses of shared memory count from its beginning.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright::sm90 {

inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(static_cast<const std::byte*>(pointer) - emulated::shared_memory);
}
// Counters that blocks meet at.
inline void count_release(unsigned* counter, unsigned last) {
  atomicInc(counter, last);
  emulated::tell_progress();
}
inline void count_relaxed(unsigned* counter, unsigned last) { count_release(counter, last); }
inline unsigned load_acquire(const unsigned* counter) {
  emulated::let_others_run();
  return *counter;
}
inline unsigned swizzle_128(unsigned offset) { return offset ^ ((offset >> 3) & 0x70); }

inline uint4 load_words(unsigned address) {
  uint4 words{};
  if (const std::byte* data = emulated::shared_at(address, 16)) std::memcpy(&words, data, 16);
  return words;
}

// Row t % 8 of matrix t / 8 stands at the address of thread t.
inline void store_matrices_as(unsigned address, const unsigned (&r)[4], bool transposed) {
  auto& mine = emulated::warp_rows()[static_cast<size_t>(emulated::lane())];
  mine[0] = address;
  std::memcpy(&mine[1], r, sizeof(r));
  emulated::meet_warp([transposed](emulated::WarpRows& rows) {
    for (size_t l = 0; l < 32; ++l) {
      for (size_t matrix = 0; matrix < 4; ++matrix) {
        for (size_t half = 0; half < 2; ++half) {
          const size_t row = transposed ? l % 4 * 2 + half : l / 4, column = transposed ? l / 4 : l % 4 * 2 + half;
          const auto value = static_cast<unsigned short>(rows[l][1 + matrix] >> (16 * half));
          std::byte* to = emulated::shared_at(rows[matrix * 8 + row][0], 16);
          if (to != nullptr) std::memcpy(to + column * 2, &value, 2);
        }
      }
    }
  });
}
inline void store_matrix_x4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  store_matrices_as(address, {r0, r1, r2, r3}, false);
}
inline void store_matrix_x4_transposed(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  store_matrices_as(address, {r0, r1, r2, r3}, true);
}

}  // namespace tilewright::sm90
