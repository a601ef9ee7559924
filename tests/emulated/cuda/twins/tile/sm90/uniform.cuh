// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/uniform.cuh. What differs between lanes is a fault.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright::sm90 {

inline int uniform(int word) {
  if (__shfl_sync(0xFFFFFFFF, word, 0) != word) emulated::fail("a word that is not the same in all lanes");
  return word;
}
inline unsigned uniform(unsigned word) { return static_cast<unsigned>(uniform(static_cast<int>(word))); }

}  // namespace tilewright::sm90
