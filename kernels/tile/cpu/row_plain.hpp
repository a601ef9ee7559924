// SPDX-License-Identifier: MIT
// Rows whose values are their elements, nothing else: no question in a loop, and of 16 bits magnitudes compared as they lie.
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <DType kOf>
struct PlainRow {
  static constexpr DType kType = kOf;
  static constexpr bool kWords = dtype_bits(kType) == 16;
  const char* x;

  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 operator()(RowPiece<kWhole> at) const {
    return load_piece<kType>(x, kType, at);
  }
};
template <class Value>
concept HasWords = requires(const Value& value) { requires value.kWords; };

// Of a register: compilers keep larger vectors in memory.
inline constexpr int kWordBytes = TILEWRIGHT_AVX512 ? 64 : TILEWRIGHT_AVX2 ? 32 : 16;
using Words = unsigned short __attribute__((vector_size(kWordBytes), may_alias));
using LooseWords = unsigned short __attribute__((vector_size(kWordBytes), may_alias, aligned(2)));

// The largest magnitude of elements of 16 bits: as numbers they are in the order of what they mean, NaN above all. `count`: whole vectors
// of words.
struct LargestWord {
  static constexpr int kWords = kWordBytes / 2, kChains = 64 / kWordBytes;
  Words most[kChains]{};

  TILEWRIGHT_INLINE void add(const char* from, int count) {
    for (int i = 0; i < count; i += 32) {
      unroll<kChains>([&](auto c) __attribute__((always_inline)) {
        const Words words = *reinterpret_cast<const LooseWords*>(from + 2 * (i + c * kWords)) & 0x7FFF;
        most[c] = words > most[c] ? words : most[c];
      });
    }
  }
  template <DType kType>
  TILEWRIGHT_INLINE float value() const {
    Words all = most[0];
    unroll<kChains - 1>([&](auto c) __attribute__((always_inline)) { all = most[c + 1] > all ? most[c + 1] : all; });
    alignas(64) unsigned short lanes[kWords];
    *reinterpret_cast<Words*>(lanes) = all;
    unsigned short largest = 0;
    for (const unsigned short lane : lanes) largest = lane > largest ? lane : largest;
    return kType == DType::kBf16 ? widen(bf16{largest}) : widen(f16{largest});
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
