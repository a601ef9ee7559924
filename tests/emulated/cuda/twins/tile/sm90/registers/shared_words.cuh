// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/registers/shared_words.cuh.
#pragma once

#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

inline unsigned load_word(unsigned address) {
  unsigned word = 0;
  if (const std::byte* data = emulated::shared_at(address, sizeof(word))) std::memcpy(&word, data, sizeof(word));
  return word;
}
inline uint2 load_two_words(unsigned address) {
  uint2 words{};
  if (const std::byte* data = emulated::shared_at(address, sizeof(words))) std::memcpy(&words, data, sizeof(words));
  return words;
}

}  // namespace tilewright::sm90
