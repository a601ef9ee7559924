// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/stream_load.cuh.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright {

inline uint4 load_cached(const char* from, bool there) {
  uint4 v{0, 0, 0, 0};
  if (!there) return v;
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    emulated::fail("a load of 16 bytes is not aligned");
    return v;
  }
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <bool kAlways>
uint4 load_stream(const char* from, bool there) {
  return load_cached(from, kAlways || there);
}
template <bool kAlways, int kWords>
void load_stream_words(unsigned (&words)[kWords], const char* from, bool there) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  std::memset(words, 0, sizeof(words));
  if (!kAlways && !there) return;
  if (reinterpret_cast<uintptr_t>(from) % sizeof(words) != 0) {
    emulated::fail("a load of several words is not aligned");
    return;
  }
  std::memcpy(words, from, sizeof(words));
}

}  // namespace tilewright
