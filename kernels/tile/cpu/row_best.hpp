// SPDX-License-Identifier: MIT
// The best elements of a row, found as it is read: what may be one of them is put aside, and thinned out when there is much of it.
#pragma once

#include "tile/common/token_order.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE unsigned key_digits(int key) { return static_cast<unsigned>(key) ^ 0x80000000u; }

// From so many best on, vectors of a row have one of them so often that asking costs more than taking none.
inline constexpr int kTakenUnasked = 513;

// Keys up to `floor` are not among the best; `bound` is its value, where there is one.
struct RowFloor {
  int key = kNoKey;
  float bound = 0;

  // Keys and ids of a piece's elements above it, 16 of which may be written: how many.
  template <bool kWhole>
  TILEWRIGHT_INLINE int take_above(F32x16 x, RowPiece<kWhole> at, int* to_key, int* to_id, bool asks) const {
    if (asks && key != kNoKey && !any_less(F32x16::splat(bound), x)) return 0;
    const I32x16 up = I32x16::load(kCountUp), ids = I32x16::splat(static_cast<int>(at.n)) + up;
    // NaN is as bad as minus infinity.
    I32x16 keys = ordered(select_nan(x, F32x16::splat(-__builtin_inff()), x));
    if constexpr (!kWhole) keys = select_greater(I32x16::splat(at.count), up, keys, I32x16::splat(kNoKey));
    return pack_greater(keys, I32x16::splat(key), keys, ids, to_key, to_id);
  }
  TILEWRIGHT_INLINE void rise(int to) {
    key = to > kLeastKey ? to : kLeastKey;
    bound = ordered_value(key);
  }
};

// Behind what is better or was there before.
TILEWRIGHT_INLINE void insert_in_order(int its_key, int its_id, int* key, int* id, int at) {
  for (; at > 0 && key[at - 1] < its_key; --at) key[at] = key[at - 1], id[at] = id[at - 1];
  key[at] = its_key, id[at] = its_id;
}

// A few, which are kept in order.
inline constexpr int kFewBest = 64;
struct RowFewBest {
  int most, count = 0;
  RowFloor floor;
  int key[kFewBest], id[kFewBest];

  TILEWRIGHT_INLINE explicit RowFewBest(int k) : most(k) {}
  template <bool kWhole>
  TILEWRIGHT_INLINE void offer(F32x16 x, RowPiece<kWhole> at) {
    int keys[kVec], ids[kVec];
    const int offered = floor.take_above(x, at, keys, ids, /*asks=*/true);
    for (int i = 0; i < offered; ++i) {
      if (keys[i] <= floor.key) continue;
      insert_in_order(keys[i], ids[i], key, id, count < most ? count++ : most - 1);
      if (count == most) floor.rise(key[most - 1]);
    }
  }
  TILEWRIGHT_INLINE void sort(int* ids) const {
    for (int i = 0; i < count; ++i) ids[i] = id[i];
  }
};

template <int kMost>
struct RowBest {
  // Each thinning leaves little more than half of what is aside.
  static constexpr int kRoom = 2 * kMost, kLeastRoom = kRoom < 1024 ? kRoom : 1024, kDigitBits = 11;
  static constexpr int kSortedByPlace = 160;  // so few take less time than digits do
  int most, room, count = 0;
  RowFloor floor;
  // In the order of ids; the last ones are for lanes that are stored and do not count.
  alignas(64) int key[kRoom + kVec];
  alignas(64) int id[kRoom + kVec];

  TILEWRIGHT_INLINE explicit RowBest(int k) : most(k), room(2 * k < kLeastRoom ? kLeastRoom : 2 * k) {}

  // Pieces come in the order of their ids.
  template <bool kWhole>
  TILEWRIGHT_INLINE void offer(F32x16 x, RowPiece<kWhole> at) {
    count += floor.take_above(x, at, key + count, id + count, most < kTakenUnasked);
    if (count > room - kVec) thin();
  }

  // What is left is the best, and a few more where it need not be `exact`.
  inline __attribute__((noinline)) void thin(bool exact = false) {
    if (count <= most) return;
    // Where the last of the best may be, and how many of those there belong to the best.
    I32x16 least = I32x16::splat(-1 - kNoKey), largest = I32x16::splat(kNoKey);
    I32x16::splat(key[0]).store(key + count);
    for (int i = 0; i < count; i += kVec) {
      const I32x16 keys = I32x16::load(key + i);
      least = smaller(least, keys), largest = larger(largest, keys);
    }
    unsigned first = key_digits(-1 - largest_lane(I32x16::splat(-1) - least)), last = key_digits(largest_lane(largest));
    unsigned left = static_cast<unsigned>(most);
    for (;;) {
      const int low = last - first < 1u << kDigitBits ? 0 : 32 - kDigitBits - __builtin_clz(last - first);
      unsigned of_digit[1 << kDigitBits] = {};
      for (int i = 0; i < count; ++i) {
        const unsigned behind = key_digits(key[i]) - first;
        if (behind <= last - first) ++of_digit[behind >> low];
      }
      unsigned digit = (last - first) >> low;
      for (; of_digit[digit] < left; --digit) left -= of_digit[digit];
      first += digit << low, last = first + ((1u << low) - 1);
      if (low == 0) return keep_best(static_cast<int>(key_digits(static_cast<int>(first))), left);
      if (!exact && of_digit[digit] - left <= static_cast<unsigned>(room - most) / 4) {
        return keep_above(static_cast<int>(key_digits(static_cast<int>(first - 1))));
      }
    }
  }
  // Those with larger keys.
  TILEWRIGHT_INLINE void keep_above(int end) {
    I32x16::splat(kNoKey).store(key + count);
    int kept = 0;
    for (int i = 0; i < count; i += kVec) {
      const I32x16 keys = I32x16::load(key + i);
      kept += pack_greater(keys, I32x16::splat(end), keys, I32x16::load(id + i), key + kept, id + kept);
    }
    close(kept, end);
  }
  // Those, and the first `left` that have this one; what comes later is behind these.
  TILEWRIGHT_INLINE void keep_best(int last, unsigned left) {
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      const unsigned same = key[i] == last && left > 0 ? 1 : 0;
      left -= same;
      const int its = key[i];
      key[kept] = its, id[kept] = id[i];
      kept += its > last ? 1 : static_cast<int>(same);
    }
    close(kept, last);
  }
  TILEWRIGHT_INLINE void close(int kept, int end) {
    count = kept;
    floor.rise(end);
  }

  // The best, the very best first, of equals the first id: as they stand in `ids`.
  inline __attribute__((noinline)) void sort(int* ids) {
    thin(/*exact=*/true);
    if (count <= kSortedByPlace) {
      for (int i = 0; i < count; ++i) {
        const int its_key = key[i], its_id = id[i];
        insert_in_order(its_key, its_id, key, ids, i);
      }
      return;
    }
    // Digit by digit, the last one first. What is better goes to the front, so digits count down.
    int other_key[kMost], other_id[kMost];
    int *from_key = key, *from_id = id, *to_key = other_key, *to_id = other_id;
    for (int low = 0; low < 32; low += kDigitBits) {
      constexpr unsigned kAll = (1u << kDigitBits) - 1;
      const auto digit_of = [&](int its) { return ~key_digits(its) >> low & kAll; };
      unsigned of_digit[kAll + 1] = {};
      for (int i = 0; i < count; ++i) ++of_digit[digit_of(from_key[i])];
      if (of_digit[digit_of(from_key[0])] == static_cast<unsigned>(count)) continue;
      unsigned before = 0;
      for (unsigned& of : of_digit) {
        const unsigned its = of;
        of = before, before += its;
      }
      for (int i = 0; i < count; ++i) {
        const unsigned to = of_digit[digit_of(from_key[i])]++;
        to_key[to] = from_key[i], to_id[to] = from_id[i];
      }
      int *const key_was = from_key, *const id_was = from_id;
      from_key = to_key, from_id = to_id, to_key = key_was, to_id = id_was;
    }
    for (int i = 0; i < count; ++i) ids[i] = from_id[i];
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
