// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/word_copy.cuh: words land when somebody waits at the barrier where they count.
#pragma once

#include <array>

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

struct WordUnderWay {
  float* to;
  const float* from;
  bool there;
};
inline std::array<std::vector<WordUnderWay>, emulated::kMostThreads> words_under_way;  // of each thread

inline void copy_word(float* to, const float* from, bool there) {
  const unsigned poison = 0xFFFFFFFF;
  std::memcpy(to, &poison, sizeof(poison));
  words_under_way[emulated::running_thread()].push_back({to, from, there});
}
inline void arrive_with_words(Barrier& barrier) {
  std::vector<WordUnderWay>& mine = words_under_way[emulated::running_thread()];
  const auto land = [words = std::move(mine)] {
    for (const WordUnderWay& w : words) *w.to = w.there ? *w.from : 0.0f;
  };
  copies_under_way[{emulated::running_block(), &barrier}].push_back({land, 0});
  mine.clear();
  arrive(barrier);
}

}  // namespace tilewright::sm90
