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

// Over the root of the mean square, times weights. Floats behind the head are zeros.
TILEWRIGHT_INLINE void normalise_head(const CacheArgs& args, const CacheHeads& mine, const HeadWeights& weights,
                                      float* head) {
  F32x16 squares = F32x16::splat(0);
  for_head(mine.n, [&](auto at) __attribute__((always_inline)) {
    const F32x16 x = float_piece(head, at);
    squares = fma(x, x, squares);
  });
  const float inverse = 1 / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(mine.n) + args.eps);
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

// Floats as elements of `to`.
template <DType kType>
TILEWRIGHT_INLINE void encode_head(char* to, DType dtype, const float* head, int n, const Divisor* by, bool stream) {
  if constexpr (kType == DType::kNone) {
    return encode_any(to, dtype, head, n, by);
  } else {
    encode_values<kType>(to, n, stream, [&](auto at) __attribute__((always_inline)) {
      const F32x16 x = F32x16::load(head + at.n);
      if constexpr (is_quantised(kType)) return divided(x, *by);
      return x;
    });
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

template <DType kX, DType kOut>
TILEWRIGHT_INLINE void write_head(const CacheArgs& args, const CacheHeads& mine, const HeadWeights& weights,
                                  const TokenAngles& angles, DType out, const CachePlace& place, long long token,
                                  int h) {
  alignas(64) float head[kMostHeadElements + kVec];
  alignas(64) char codes[kMostHeadElements * 4];
  const DType x = kX == DType::kNone ? args.x : kX, dtype = kOut == DType::kNone ? out : kOut;
  const char* const from =
      static_cast<const char*>(mine.in) + (token * mine.stride_token + h * mine.stride_head) * dtype_bits(x) / 8;
  for_pieces(mine.n, [&](auto at) __attribute__((always_inline)) {
    fetch(from + at.n * dtype_bits(x) / 8 + kFetchedLines);
    load_piece<kX>(from, x, at).store(head + at.n);
  });
  if (mine.normed) normalise_head(args, mine, weights, head);
  if (mine.turned) turn_head(args.rotation, angles, head);
  Divisor by{};
  if (is_quantised(dtype)) {
    // A tail's lanes may have been written.
    for (int d = mine.n; d % kVec != 0; ++d) head[d] = 0;
    by = head_divisor(mine, dtype, place, h, head);
  }
  const int bytes = dtype_bits(dtype) / 8;
  char* const to = static_cast<char*>(mine.out.data) + paged_head(mine.out, place, h) * bytes;
  const bool together = mine.out.element == 1 && mine.out.elements >= mine.n;
  encode_head<kOut>(together ? to : codes, dtype, head, mine.n, is_quantised(dtype) ? &by : nullptr,
                    together && args.stream);
  if (!together) scatter_head(mine.out, bytes, to, codes, mine.n);
}

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
      for (int h = 0; h < mine.heads; ++h) {
        if constexpr (kConfig.x == DType::kNone || kConfig.q != DType::kNone) {
          if (tensor == kCacheQueries) {
            write_head<kConfig.x, kConfig.q>(args, mine, weights[tensor], angles, args.q, place, token, h);
            continue;
          }
        }
        write_head<kConfig.x, kConfig.cache>(args, mine, weights[tensor], angles, args.cache, place, token, h);
      }
    }
  });
  if (args.stream) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
