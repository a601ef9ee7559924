// SPDX-License-Identifier: MIT
// What kv_cache_write_cpu does to a head: its norm, its scale, its elements where they go.
#pragma once

#include "kv_cache/kv_cache_args.hpp"
#include "tile/cpu/row_pairs.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

static_assert(kMostHeadElements <= TokenAngles::kMostDims, "angles of all that turns are kept");

// What heads of a tensor are multiplied by after the norm, as floats: made once for all of them.
struct HeadWeights {
  alignas(64) float of[kMostHeadElements + kVec];

  // kType: in the order of its elements.
  template <DType kType>
  TILEWRIGHT_INLINE void load(const CacheArgs& args, const CacheHeads& mine) {
    const F32x16 offset = F32x16::splat(args.unit_offset ? 1 : 0);
    for_pieces(mine.n, [&](auto at) {
      const F32x16 weight =
          mine.weight == nullptr ? F32x16::splat(1) : load_column({mine.weight, args.weight}, at) + offset;
      take_apart<kType>(weight).store(of + at.n);
    });
  }
};

// kType: in the order of its elements.
template <DType kType, class Value>
TILEWRIGHT_INLINE float squares_of_head(int n, Value&& value) {
  F32x16 squares = F32x16::splat(0);
  for_pieces(n, [&](auto at) __attribute__((always_inline)) {
    const F32x16 x = value(at);
    squares = fma(x, x, squares);
  });
  return sum_lanes(put_together<kType>(squares));
}
// 1 over the root of their mean.
TILEWRIGHT_INLINE float inverse_of_squares(const CacheArgs& args, int n, float squares) {
  return 1 / __builtin_sqrtf(squares / static_cast<float>(n) + args.eps);
}

// The scale of a head, found from its largest magnitude and written.
TILEWRIGHT_INLINE Divisor find_divisor(const CacheHeads& mine, DType dtype, const CachePlace& place, int h,
                                       float most) {
  const float scale = scale_for(most, dtype);
  static_cast<float*>(mine.scale.data)[paged_scale(mine.scale, place, h)] = scale;
  return divisor_of(scale);
}
// That which is given.
TILEWRIGHT_INLINE Divisor given_divisor(const CacheHeads& mine, const CachePlace& place, int h) {
  return divisor_of(static_cast<const float*>(mine.scale.data)[paged_scale(mine.scale, place, h)]);
}

// value(piece) as elements of `to`, divided where they are quantised. `found`: by a scale that was found from them.
template <DType kType, class Value>
TILEWRIGHT_INLINE void encode_head(char* to, int n, const Divisor& by, bool found, bool stream, Value&& value) {
  if constexpr (!is_quantised(kType)) {
    encode_values<kType>(to, n, stream, value);
  } else if (found && by.near_one) {
    encode_values<kType, true>(to, n, stream,
                               [&](auto at) __attribute__((always_inline)) { return divided<true>(value(at), by); });
  } else {
    encode_values<kType>(to, n, stream, [&](auto at) __attribute__((always_inline)) { return divided(value(at), by); });
  }
}
// Elements from where they lie one behind the other to a head of the cache: runs of neighbours at a time.
TILEWRIGHT_INLINE void scatter_head(const PagedTensor& t, int bytes, char* head, const char* from, int n) {
  const int run = t.element == 1 ? t.elements : 1;
  for (int d = 0; d < n; d += run) {
    __builtin_memcpy(head + paged_element(t, d) * bytes, from + d * bytes,
                     static_cast<unsigned>((n - d < run ? n - d : run) * bytes));
  }
}

// A head on its way: as floats, with what its squares say of it and what it is divided by.
struct HeadAtWork {
  alignas(64) float value[kMostHeadElements + kVec];
  float inverse;
  Divisor by;
};

TILEWRIGHT_INLINE bool lie_together(const CacheHeads& mine) {
  return mine.out.element == 1 && mine.out.elements >= mine.n;
}
// Whether all of a head turns, by whole lines, and no scale is found from what comes out.
template <DType kOut>
TILEWRIGHT_INLINE bool turns_at_once(const CacheArgs& args, const CacheHeads& mine) {
  if constexpr (kOut != DType::kNone) {
    return mine.turned && mine.scale.mode != CacheScales::kToken && lie_together(mine) &&
           args.rotation.dims == mine.n && turns_lines<kOut>(args.rotation);
  }
  return false;
}
}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
