// SPDX-License-Identifier: MIT
// kv_cache_write_cpu: heads of tokens, normalised and turned where asked for, into a paged cache: a head at a time, as floats. Typed by
// its config, or at run time.
#pragma once

#include "kv_cache/kv_cache_args.hpp"
#include "tile/cpu/row_pairs.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// body(RowPiece) over the pieces of a head, of floats in memory that has room behind them.
template <class Body>
TILEWRIGHT_INLINE void for_head(int n, Body&& body) {
  for (int d = 0; d < n; d += kVec) body(RowPiece<true>{d, kVec});
}
TILEWRIGHT_INLINE F32x16 float_piece(const float* head, RowPiece<true> at) { return F32x16::load(head + at.n); }

// What heads of a tensor are multiplied by after the norm, as floats: made once for all of them.
struct HeadWeights {
  alignas(64) float of[kMostHeadElements + kVec];
  bool given = false;

  TILEWRIGHT_INLINE void load(const CacheArgs& args, const CacheHeads& mine) {
    given = mine.normed && mine.weight != nullptr;
    if (!given) return;
    const float offset = args.unit_offset ? 1 : 0;
    for_pieces(mine.n, [&](auto at) {
      (load_column({mine.weight, args.weight}, at) + F32x16::splat(offset)).store(of + at.n);
    });
  }
};
// What turns all heads of a token, as floats.
struct TokenAngles {
  alignas(64) float cosine[kMostHeadElements / 2 + kVec];
  alignas(64) float sine[kMostHeadElements / 2 + kVec];

  TILEWRIGHT_INLINE void load(const CacheArgs& args, long long token) {
    RowAngles of_axis[kRopeAxes];
    for (int axis = 0; axis < args.rotation.axes; ++axis) of_axis[axis] = cache_angles(args, token, axis);
    for_pieces(args.rotation.dims / 2, [&](auto at) {
      const PairAngles angles = load_angles(args.rotation, of_axis, at);
      angles.cosine.store(cosine + at.n), angles.sine.store(sine + at.n);
    });
  }
};

// 1 over the root of the mean square. Floats behind the head are zeros.
TILEWRIGHT_INLINE float inverse_of_head(const CacheArgs& args, const CacheHeads& mine, const float* head) {
  F32x16 squares = F32x16::splat(0);
  for_head(mine.n, [&](auto at) __attribute__((always_inline)) {
    const F32x16 x = float_piece(head, at);
    squares = fma(x, x, squares);
  });
  return 1 / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(mine.n) + args.eps);
}
// Times that and weights.
TILEWRIGHT_INLINE void scale_head(const CacheHeads& mine, const HeadWeights& weights, float inverse, float* head) {
  if (weights.given) {
    for_head(mine.n, [&](auto at) __attribute__((always_inline)) {
      (float_piece(head, at) * F32x16::splat(inverse) * F32x16::load(weights.of + at.n)).store(head + at.n);
    });
  } else {
    for_head(mine.n, [&](auto at) __attribute__((always_inline)) {
      (float_piece(head, at) * F32x16::splat(inverse)).store(head + at.n);
    });
  }
}

TILEWRIGHT_INLINE void turn_head(const RowRotation& r, const TokenAngles& angles, float* head) {
  turn_runs<DType::kF32>(
      r, reinterpret_cast<const char*>(head), reinterpret_cast<char*>(head), DType::kF32,
      [&](auto pairs) __attribute__((always_inline)) {
        return PairAngles{load_piece<DType::kF32>(reinterpret_cast<const char*>(angles.cosine), DType::kF32, pairs),
                          load_piece<DType::kF32>(reinterpret_cast<const char*>(angles.sine), DType::kF32, pairs)};
      });
}

// The scale of a head, found from its largest magnitude and written, or given.
TILEWRIGHT_INLINE Divisor head_divisor(const CacheHeads& mine, DType dtype, const CachePlace& place, int h,
                                       const float* head) {
  auto* const scale = static_cast<float*>(mine.scale.data) + paged_scale(mine.scale, place, h);
  if (mine.scale.mode == CacheScales::kToken) {
    F32x16 most = F32x16::splat(0);
    for_head(mine.n, [&](auto at) { most = larger_magnitude(most, float_piece(head, at)); });
    *scale = scale_for(largest_lane(most), dtype);
  }
  return divisor_of(*scale);
}

// Floats as elements of `to`. `found`: they are divided by a scale that was found from them.
template <DType kType>
TILEWRIGHT_INLINE void encode_head(char* to, DType dtype, const float* head, int n, const Divisor* by, bool found,
                                   bool stream) {
  if constexpr (kType == DType::kNone) {
    return encode_any(to, dtype, head, n, by);
  } else if constexpr (!is_quantised(kType)) {
    encode_values<kType>(to, n, stream,
                         [&](auto at) __attribute__((always_inline)) { return F32x16::load(head + at.n); });
  } else if (found && by->near_one) {
    encode_values<kType, true>(to, n, stream, [&](auto at) __attribute__((always_inline)) {
      return divided<true>(F32x16::load(head + at.n), *by);
    });
  } else {
    encode_values<kType>(
        to, n, stream, [&](auto at) __attribute__((always_inline)) { return divided(F32x16::load(head + at.n), *by); });
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

// The heads of a tensor and a token. Each is a step behind the next one: its sums and its scale, which take long to be known, are made
// meanwhile.
template <DType kX, DType kOut>
struct HeadWriter {
  const CacheArgs& args;
  const CacheHeads& mine;
  const HeadWeights& weights;
  const TokenAngles& angles;
  DType out;
  CachePlace place;
  long long token;

  TILEWRIGHT_INLINE DType dtype() const { return kOut == DType::kNone ? out : kOut; }
  TILEWRIGHT_INLINE void read(HeadAtWork& head, int h) const {
    const DType x = kX == DType::kNone ? args.x : kX;
    const char* const from =
        static_cast<const char*>(mine.in) + (token * mine.stride_token + h * mine.stride_head) * dtype_bits(x) / 8;
    for_pieces(mine.n, [&](auto at) __attribute__((always_inline)) {
      fetch(from + at.n * dtype_bits(x) / 8 + kFetchedLines);
      load_piece<kX>(from, x, at).store(head.value + at.n);
    });
    if (mine.normed) head.inverse = inverse_of_head(args, mine, head.value);
  }
  TILEWRIGHT_INLINE void turn(HeadAtWork& head, int h) const {
    if (mine.normed) scale_head(mine, weights, head.inverse, head.value);
    if (mine.turned) turn_head(args.rotation, angles, head.value);
    if (!is_quantised(dtype())) return;
    // A tail's lanes may have been written.
    for (int d = mine.n; d % kVec != 0; ++d) head.value[d] = 0;
    head.by = head_divisor(mine, dtype(), place, h, head.value);
  }
  TILEWRIGHT_INLINE void write(const HeadAtWork& head, int h) const {
    const int bytes = dtype_bits(dtype()) / 8;
    char* const to = static_cast<char*>(mine.out.data) + paged_head(mine.out, place, h) * bytes;
    const Divisor* const by = is_quantised(dtype()) ? &head.by : nullptr;
    const bool found = mine.scale.mode == CacheScales::kToken;
    if (mine.out.element == 1 && mine.out.elements >= mine.n) {
      return encode_head<kOut>(to, dtype(), head.value, mine.n, by, found, args.stream);
    }
    alignas(64) char codes[kMostHeadElements * 4];
    encode_head<kOut>(codes, dtype(), head.value, mine.n, by, found, false);
    scatter_head(mine.out, bytes, to, codes, mine.n);
  }

  TILEWRIGHT_INLINE void write_all() const {
    HeadAtWork heads[3];
    for (int h = 0; h < mine.heads + 2; ++h) {
      if (h < mine.heads) read(heads[h % 3], h);
      if (h >= 1 && h <= mine.heads) turn(heads[(h - 1) % 3], h - 1);
      if (h >= 2) write(heads[(h - 2) % 3], h - 2);
    }
  }
};

template <CacheCpuConfig kConfig>
void kv_cache_write_cpu(const CacheArgs& arguments, unsigned unit, unsigned units) {
  const CacheArgs args = arguments;  // which no store changes
  HeadWeights weights[kCacheTensors];
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) weights[tensor].load(args, args.heads[tensor]);
  TokenAngles angles;
  for_share(args.tokens, unit, units, [&](long long token) __attribute__((always_inline)) {
    if (args.heads[kCacheQueries].turned || args.heads[kCacheKeys].turned) angles.load(args, token);
    for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
      const CacheHeads& mine = args.heads[tensor];
      if (mine.heads == 0) continue;
      const CachePlace place = cache_place(args, tensor, token);
      if (!place.known) continue;
      if constexpr (kConfig.x == DType::kNone || kConfig.q != DType::kNone) {
        if (tensor == kCacheQueries) {
          HeadWriter<kConfig.x, kConfig.q>{args, mine, weights[tensor], angles, args.q, place, token}.write_all();
          continue;
        }
      }
      HeadWriter<kConfig.x, kConfig.cache>{args, mine, weights[tensor], angles, args.cache, place, token}.write_all();
    }
  });
  if (args.stream) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
