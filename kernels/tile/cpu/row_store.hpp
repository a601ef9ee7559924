// SPDX-License-Identifier: MIT
// Writes a row of any output type: as it is, or divided by scales that are given, or found, a row or a group of neighbours at a
// time (docs/quantisation.md).
#pragma once

#include "tile/cpu/row_small_groups.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Typed at run time: a function, because kernels of this kind are small rather than fast.
inline __attribute__((noinline)) void encode_any(char* to, DType dtype, const float* values, int count,
                                                 const Divisor* by) {
  const auto as = [&](auto type) {
    for_pieces(count, [&](auto piece) {
      const F32x16 v = F32x16::load(values + piece.n);
      encode_tail<type.value>(to + piece.n * dtype_bits(type.value) / 8, by == nullptr ? v : divided(v, *by),
                              piece.count);
    });
  };
  switch (dtype) {
    case DType::kF16: return as(TypeTag<DType::kF16>{});
    case DType::kBf16: return as(TypeTag<DType::kBf16>{});
    case DType::kF8E4M3: return as(TypeTag<DType::kF8E4M3>{});
    case DType::kF8E5M2: return as(TypeTag<DType::kF8E5M2>{});
    case DType::kF8E4M3Fnuz: return as(TypeTag<DType::kF8E4M3Fnuz>{});
    case DType::kF8E5M2Fnuz: return as(TypeTag<DType::kF8E5M2Fnuz>{});
    case DType::kI8: return as(TypeTag<DType::kI8>{});
    case DType::kF4E2M1: return as(TypeTag<DType::kF4E2M1>{});
    default: return as(TypeTag<DType::kF32>{});
  }
}
// Neighbours from n on over any scale, that of zeros, infinities or NaN too: few instructions, not a fast way.
template <class Value, class Round>
TILEWRIGHT_INLINE void encode_pieces(char* row, DType out, long long n, long long end, const Divisor& by, Value&& value,
                                     Round&& round) {
  for (; n < end; n += kVec) {
    alignas(64) float lanes[kVec];
    const RowPiece<false> piece{n, end - n < kVec ? static_cast<int>(end - n) : kVec};
    round(divided(value(piece), by), n).store(lanes);
    encode_any(row + n * dtype_bits(out) / 8, out, lanes, piece.count, nullptr);
  }
}

// Groups of 16 kCount neighbours: in the first cache between their largest value and their codes. A group is read before the one in
// front of it is written, while that one's scale is made.
template <DType kOut, int kCount, class Next, class Value, class Round>
TILEWRIGHT_INLINE void encode_groups(const RowArgs& args, const RowIndex& at, char* row, const Next& next,
                                     Value&& value, Round&& round) {
  constexpr int kGroup = kCount * kVec;
  const bool stream = args.stream && begins_line(row);
  const long long groups = args.n / kGroup, first_scale = row_offset(args.scale.stride, at);
  const auto store_group_scale = [&](long long g, float most) __attribute__((always_inline)) {
    return divisor_of(store_scale(args.scale, kOut, first_scale + g * args.scale.stride_group, most));
  };
  alignas(64) float values[2][kGroup];
  Divisor by[2];
  for (long long g = 0; g <= groups; ++g) {
    if (g < groups) {
      float* const here = values[g % 2];
      F32x16 most = F32x16::splat(0);
      for (int i = 0; i < kGroup; i += 2 * kVec) {
        const RowPiece<true> first{g * kGroup + i, kVec}, second{first.n + kVec, kVec};
        next.fetch_next(first), next.fetch_next(second);
        const F32x16 a = value(first), b = value(second);
        a.store(here + i), b.store(here + i + kVec);
        most = larger_magnitude(larger_magnitude(most, a), b);
      }
      by[g % 2] = store_group_scale(g, largest_lane(most));
    }
    if (g == 0) continue;
    const long long n = (g - 1) * kGroup;
    const float* const here = values[(g - 1) % 2];
    const Divisor mine = by[(g - 1) % 2];
    if (__builtin_expect(!mine.near_one, 0)) {
      encode_pieces(row, kOut, n, n + kGroup, mine, value, round);
      continue;
    }
    constexpr int kLine = 32 / dtype_bits(kOut) < kCount ? 32 / dtype_bits(kOut) : kCount;
    for (int i = 0; i < kGroup; i += kLine * kVec) {
      F32x16 v[kLine];
      unroll<kLine>([&](auto j) __attribute__((always_inline)) {
        v[j] = round(divided<true>(F32x16::load(here + i + j * kVec), mine), n + i + j * kVec);
      });
      encode_many<kOut, true>(row + (n + i) * dtype_bits(kOut) / 8, v, stream);
    }
  }
  const long long n = groups * kGroup;
  if (n == args.n) return;
  const auto rest = [&](auto piece) { return value(decltype(piece){n + piece.n, piece.count}); };
  const Divisor last = store_group_scale(groups, largest_magnitude(args.n - n, rest));
  encode_pieces(row, kOut, n, args.n, last, value, round);
}

// A row over a scale of its own. Values that fit stay in the first caches between their largest and their codes.
template <DType kOut, class Next, class Value, class Round>
TILEWRIGHT_INLINE void encode_scaled_row(const RowArgs& args, const RowIndex& at, char* row, const Next& next,
                                         Value&& value, Round&& round) {
  alignas(64) float values[kKeptValues];
  const bool kept = args.n <= kKeptValues;
  const float most = largest_magnitude(args.n, [&](auto piece) __attribute__((always_inline)) {
    const F32x16 v = value(piece);
    if (kept) v.store(values + piece.n);
    return v;
  });
  const Divisor by = divisor_of(store_scale(args.scale, kOut, row_offset(args.scale.stride, at), most));
  if (!by.near_one) return encode_pieces(row, kOut, 0, args.n, by, value, round);
  if (kept) {
    return encode_row<kOut, true>(args, row, [&](auto piece) __attribute__((always_inline)) {
      next.fetch_next(piece);
      return round(divided<true>(F32x16::load(values + piece.n), by), piece.n);
    });
  }
  encode_row<kOut, true>(args, row, [&](auto piece) __attribute__((always_inline)) {
    return round(divided<true>(value(piece), by), piece.n);
  });
}

// The scale of a whole row, or of the tensor, where there is one.
template <class Value>
TILEWRIGHT_INLINE Divisor row_divisor(const RowArgs& args, Quantisation quant, const RowIndex& at, Value&& value) {
  if (is_per_tensor(quant)) return divisor_of(*static_cast<const float*>(args.scale.data));
  return divisor_of(
      store_scale(args.scale, args.out.dtype, row_offset(args.scale.stride, at), largest_magnitude(args.n, value)));
}

template <class Value, class Round>
TILEWRIGHT_INLINE void store_row_any(const RowArgs& args, const RowIndex& at, char* row, Value&& value, Round&& round) {
  const Quantisation quant = args.scale.quant;
  Divisor by{};
  if (is_per_tensor(quant) || quant == Quantisation::kRow) by = row_divisor(args, quant, at, value);
  const int group = quant == Quantisation::kGroup ? args.scale.group : 128;
  long long scale_at = row_offset(args.scale.stride, at);
  for (long long n = 0; n < args.n; n += group, scale_at += args.scale.stride_group) {
    alignas(64) float values[128];
    const int count = args.n - n < group ? static_cast<int>(args.n - n) : group;
    F32x16 most = F32x16::splat(0);
    for (int i = 0; i < count; i += kVec) {
      const F32x16 v = value(RowPiece<false>{n + i, count - i < kVec ? count - i : kVec});
      most = larger_magnitude(most, v);
      v.store(values + i);
    }
    if (quant == Quantisation::kGroup) {
      by = divisor_of(store_scale(args.scale, args.out.dtype, scale_at, largest_lane(most)));
    }
    const bool divides = quant != Quantisation::kNone, early = divides && !round.kKeeps;
    if (early) {
      for (int i = 0; i < count; i += kVec) {
        round(divided(F32x16::load(values + i), by), n + i).store(values + i);
      }
    }
    encode_any(row + n * dtype_bits(args.out.dtype) / 8, args.out.dtype, values, count,
               divides && !early ? &by : nullptr);
  }
}

// A row of the output, each value by `value(piece)`, with zeros behind the row's end: asked for once, or twice where its scale must be found first.
// round(quotients, n) has them before they are narrowed. In the last pass next.fetch_next(piece) is called.
template <RowCpuConfig kConfig, class Next, class Value, class Round = KeepQuotients>
TILEWRIGHT_INLINE void store_row(const RowArgs& args, const RowIndex& at, const Next& next, Value&& value,
                                 Round&& round = {}) {
  constexpr DType kOut = kConfig.out;
  char* const row = row_start(args.out, at);
  if constexpr (kConfig.x == DType::kNone) {
    store_row_any(args, at, row, value, round);
  } else if constexpr (kConfig.quant == Quantisation::kNone) {
    encode_row<kOut>(args, row, [&](auto piece) __attribute__((always_inline)) {
      next.fetch_next(piece);
      return value(piece);
    });
  } else if constexpr (kConfig.quant == Quantisation::kGroup) {
    constexpr int kCount = kConfig.group / kVec;
    if constexpr (kCount <= 2) {
      encode_small_groups<kOut, kCount>(args, at, row, next, value, round);
    } else {
      encode_groups<kOut, kCount>(args, at, row, next, value, round);
    }
  } else if constexpr (kConfig.quant == Quantisation::kRow) {
    encode_scaled_row<kOut>(args, at, row, next, value, round);
  } else {
    const Divisor by = row_divisor(args, kConfig.quant, at, value);
    encode_row<kOut>(args, row, [&](auto piece) __attribute__((always_inline)) {
      next.fetch_next(piece);
      return round(divided(value(piece), by), piece.n);
    });
  }
}

// The steps before the rows, of values by `values(row)(piece)`; true if this was one.
template <class Values>
TILEWRIGHT_INLINE bool find_tensor_scale(const RowArgs& args, unsigned unit, unsigned units, Values&& values) {
  if (args.step == RowStep::kRows) return false;
  float most = 0;
  const auto merge = [&most](float one) { most = one > most || one != one ? one : most; };
  if (args.step == RowStep::kFind) {
    for_rows(args, unit, units, [&](const RowIndex& at) { merge(largest_magnitude(args.n, values(at))); });
    args.parts[unit] = most;
  } else if (unit == 0) {
    for (long long i = 0; i < args.part_count; ++i) merge(args.parts[i]);
    if (args.scale.of_tensor == nullptr) {
      store_scale(args.scale, args.out.dtype, 0, most);
    } else {
      *args.scale.of_tensor = tensor_scale_for(most, args.out.dtype);
    }
  }
  return true;
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
