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
inline std::array<std::vector<WordUnderWay>, 1024> words_under_way;  // of each thread

inline void copy_word(float* to, const float* from, bool there) {
  const unsigned poison = 0xFFFFFFFF;
  std::memcpy(to, &poison, sizeof(poison));
  words_under_way[threadIdx.x].push_back({to, from, there});
}
inline void arrive_with_words(Barrier& barrier) {
  copies_under_way[&barrier].push_back({[words = std::move(words_under_way[threadIdx.x])] {
                                          for (const WordUnderWay& w : words) *w.to = w.there ? *w.from : 0.0f;
                                        },
                                        0});
  words_under_way[threadIdx.x].clear();
  arrive(barrier);
}

}  // namespace tilewright::sm90
