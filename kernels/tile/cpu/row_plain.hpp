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

using Words32 = unsigned short __attribute__((vector_size(64), may_alias));
using LooseWords32 = unsigned short __attribute__((vector_size(64), may_alias, aligned(2)));

// The largest magnitude of elements of 16 bits: as numbers they are in the order of what they mean, NaN above all. `count`: whole vectors
// of words.
struct LargestWord {
  Words32 most{};

  TILEWRIGHT_INLINE void add(const char* from, int count) {
    for (int i = 0; i < count; i += 32) {
      const Words32 words = *reinterpret_cast<const LooseWords32*>(from + 2 * i) & 0x7FFF;
      most = words > most ? words : most;
    }
  }
  template <DType kType>
  TILEWRIGHT_INLINE float value() const {
    alignas(64) unsigned short lanes[32];
    *reinterpret_cast<Words32*>(lanes) = most;
    unsigned short largest = 0;
    for (const unsigned short lane : lanes) largest = lane > largest ? lane : largest;
    return kType == DType::kBf16 ? widen(bf16{largest}) : widen(f16{largest});
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
