// SPDX-License-Identifier: MIT
// top_k_cpu: the best so far are a heap whose root is the worst of them; what is better, which few vectors
// have, takes its place. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row.hpp"
#include "top_k/top_k_args.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

struct TopKHeap {
  int size = 0;
  unsigned long long key[kMostTopK];

  TILEWRIGHT_INLINE void sink(unsigned long long what, int count) {
    int at = 0;
    for (int child = 1; child < count; child = 2 * at + 1) {
      if (child + 1 < count && key[child + 1] < key[child]) ++child;
      if (key[child] >= what) break;
      key[at] = key[child], at = child;
    }
    key[at] = what;
  }
  TILEWRIGHT_INLINE void rise(unsigned long long what) {
    int at = size++;
    for (; at > 0 && key[(at - 1) / 2] > what; at = (at - 1) / 2) key[at] = key[(at - 1) / 2];
    key[at] = what;
  }
  // The worst goes to the end, again and again.
  TILEWRIGHT_INLINE void sort() {
    for (int count = size - 1; count > 0; --count) {
      const unsigned long long worst = key[0];
      sink(key[count], count);
      key[count] = worst;
    }
  }
};

// A unit takes rows that follow each other.
template <TopKConfig kConfig>
void top_k_cpu(const TopKArgs& args, unsigned unit, unsigned units) {
  const auto edge = [&](unsigned of) {
    const long long each = args.rows / units, more = args.rows % units;
    return of * each + (of < more ? of : more);
  };
  const DType type = kConfig.x == DType::kNone ? args.dtype : kConfig.x;
  for (long long row = edge(unit); row < edge(unit + 1); ++row) {
    const char* const from = static_cast<const char*>(args.x) + row * args.stride * dtype_bits(type) / 8;
    TopKHeap best;
    float worst = 0;  // of a heap that is full; an equal one later in the row is no better
    for_pieces(top_k_length(args, row), [&](auto piece) __attribute__((always_inline)) {
      const F32x16 x = load_piece<kConfig.x>(from, type, piece);
      if (best.size == args.k && !any_less(F32x16::splat(worst), x)) return;
      float lane[kVec];
      x.store(lane);
      for (int i = 0; i < piece.count; ++i) {
        const bool full = best.size == args.k;
        if (full && !(lane[i] > worst)) continue;
        const unsigned long long key = top_k_key(lane[i], piece.n + i);
        if (!full) {
          best.rise(key);
        } else if (key > best.key[0]) {
          best.sink(key, args.k);
        }
        if (best.size == args.k) worst = key_value(best.key[0]);
      }
    });
    best.sort();
    for (int j = 0; j < args.k; ++j) store_top_k(args, row, j, j < best.size ? best.key[j] : 0);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
