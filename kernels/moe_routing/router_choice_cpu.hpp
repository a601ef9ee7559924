// SPDX-License-Identifier: MIT
// The best of many experts for tokens side by side, one in each lane of an Int. Freestanding.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/cpu/vec_order.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr float kWorstLogit = __builtin_bit_cast(float, 0xFF800000u);

// Batcher's network: the largest first.
template <class Vector>
TILEWRIGHT_INLINE void sort_four(Vector* k) {
  order(k[0], k[1]), order(k[2], k[3]), order(k[0], k[2]), order(k[1], k[3]), order(k[1], k[2]);
}
template <class Vector>
TILEWRIGHT_INLINE void sort_eight(Vector* k) {
  sort_four(k), sort_four(k + 4);
  order(k[0], k[4]), order(k[1], k[5]), order(k[2], k[6]), order(k[3], k[7]);
  order(k[2], k[4]), order(k[3], k[5]), order(k[1], k[2]), order(k[3], k[4]), order(k[5], k[6]);
}
// What falls and rises, or rises and falls.
template <int kCount, class Vector>
TILEWRIGHT_INLINE void sort_bitonic(Vector* k) {
  if constexpr (kCount > 1) {
    unroll<kCount / 2>([&](auto i) __attribute__((always_inline)) { order(k[i], k[i + kCount / 2]); });
    sort_bitonic<kCount / 2>(k), sort_bitonic<kCount / 2>(k + kCount / 2);
  }
}

// Keys have the expert's number in their last bits: no two are alike, and networks of comparisons sort them, as many as are kept at a
// time. Where 16 bits tell a value nothing is lost. Else (kCuts) what is chosen is certain unless the last one and the next have the same
// upper bits.
template <int kMost, bool kCuts, class Int = I32x16>
struct PackedChoice {
  static_assert(kMost == 4 || kMost == 8);
  static constexpr int kBatch = kMost;
  const int all;  // bits of a number
  Int key[kMost], other = Int::splat(kNoKey);

  TILEWRIGHT_INLINE explicit PackedChoice(int experts) : all(kCuts ? bits_below(experts) : kMostExperts - 1) {
    unroll<kMost>([&](auto i) __attribute__((always_inline)) { key[i] = Int::splat(kNoKey); });
  }
  static constexpr int bits_below(int experts) {
    return experts > 1 ? (1 << (32 - __builtin_clz(static_cast<unsigned>(experts - 1)))) - 1 : 0;
  }
  TILEWRIGHT_INLINE Int key_of(Int value, int expert) const {
    return (value & Int::splat(~all)) | Int::splat(all - expert);
  }
  TILEWRIGHT_INLINE Int key_of(Int value, Int expert) const {
    return (value & Int::splat(~all)) | (Int::splat(all) - expert);
  }
  TILEWRIGHT_INLINE Int expert(int i) const { return Int::splat(all) - (key[i] & Int::splat(all)); }

  // The best `count` are those that are kept.
  TILEWRIGHT_INLINE bool is_certain(int count) const {
    bool certain = true;
    if constexpr (kCuts) {
      unroll<kMost>([&](auto i) __attribute__((always_inline)) {
        if (i + 1 == count && same_upper(i)) certain = false;
      });
    }
    return certain;
  }
  // They are in order.
  TILEWRIGHT_INLINE bool is_ordered(int count) const {
    bool ordered = true;
    if constexpr (kCuts) {
      unroll<kMost - 1>([&](auto i) __attribute__((always_inline)) {
        if (i + 1 < count && same_upper(i)) ordered = false;
      });
    }
    return ordered;
  }

  // kBatch keys of key_of(), of no expert kNoKey.
  TILEWRIGHT_INLINE void offer(Int (&k)[kBatch], int = 0) {
    if constexpr (kMost == 4) sort_four(k);
    if constexpr (kMost == 8) sort_eight(k);
    // The better half of both, which falls and rises, in order.
    unroll<kMost>([&](auto i) __attribute__((always_inline)) {
      if constexpr (kCuts) other = larger(other, smaller(key[i], k[kMost - 1 - i]));
      key[i] = larger(key[i], k[kMost - 1 - i]);
    });
    sort_bitonic<kMost>(key);
  }

 private:
  // Key i and the next one, in any lane.
  template <class Number>
  TILEWRIGHT_INLINE bool same_upper(Number i) const {
    const Int upper = Int::splat(~all);
    if constexpr (i + 1 < kMost) return any_equal(key[i] & upper, key[i + 1] & upper);
    return any_equal(key[i] & upper, other & upper);
  }
};

// Else each that is better than the last one kept finds its place among them. Experts come in ascending order: of equals the first one
// stays before.
template <int kMost, class Int = I32x16>
struct OrderedChoice {
  static constexpr int kBatch = 1;
  Int key[kMost], number[kMost];
  int most;

  TILEWRIGHT_INLINE explicit OrderedChoice(int count = kMost) : most(count) {
    for (int i = 0; i < kMost; ++i) key[i] = Int::splat(kNoKey), number[i] = Int::splat(0);
  }
  TILEWRIGHT_INLINE Int expert(int i) const { return number[i]; }
  template <class Number>
  TILEWRIGHT_INLINE static Int key_of(Int value, Number) {
    return value;
  }
  TILEWRIGHT_INLINE static bool is_certain(int) { return true; }
  TILEWRIGHT_INLINE static bool is_ordered(int) { return true; }

  TILEWRIGHT_INLINE void offer(const Int (&k)[1], int expert) { offer(k[0], Int::splat(expert)); }
  TILEWRIGHT_INLINE void offer(Int given, Int mine) {
    // An index that is constant keeps them in registers.
    if (!any_greater(given, key[kMost <= 8 ? kMost - 1 : most - 1])) return;
    const auto place = [&](int i) __attribute__((always_inline)) {
      Int new_key = select_greater(given, key[i], given, key[i]);
      Int new_number = select_greater(given, key[i], mine, number[i]);
      if (i > 0) {
        new_key = select_greater(given, key[i - 1], key[i - 1], new_key);
        new_number = select_greater(given, key[i - 1], number[i - 1], new_number);
      }
      key[i] = new_key, number[i] = new_number;
    };
    if constexpr (kMost <= 8) {
      unroll<kMost>([&](auto i) __attribute__((always_inline)) { place(kMost - 1 - i); });
    } else {
      for (int i = most; i-- > 0;) place(i);
    }
  }
};

// Which of the groups a token may choose from: all bits of a lane, or none. In order of their scores, of equals the first one before.
TILEWRIGHT_INLINE void open_groups(const MoeRoutingArgs& args, const I32x16* scores, I32x16* open) {
  for (int g = 0; g < args.groups; ++g) {
    I32x16 better = I32x16::splat(0);
    const I32x16 one = I32x16::splat(1), zero = I32x16::splat(0);
    for (int other = 0; other < args.groups; ++other) {
      if (other == g) continue;
      better = better + (other < g ? select_greater(scores[g], scores[other], zero, one)
                                   : select_greater(scores[other], scores[g], one, zero));
    }
    open[g] = select_greater(I32x16::splat(args.topk_groups), better, I32x16::splat(-1), zero);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
