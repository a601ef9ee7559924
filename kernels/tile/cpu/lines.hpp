// SPDX-License-Identifier: MIT
// Lines of the caches, and when an output goes past them.
#pragma once

#include "tile/common/cached_output.hpp"
#include "tile/cpu/isa.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kLineBytes = 64;

TILEWRIGHT_INLINE bool begins_line(const void* p) { return reinterpret_cast<unsigned long long>(p) % kLineBytes == 0; }
// Bytes from p to where a line begins.
TILEWRIGHT_INLINE int bytes_to_line(const void* p) {
  return static_cast<int>(-reinterpret_cast<unsigned long long>(p) % kLineBytes);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
