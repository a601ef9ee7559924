// SPDX-License-Identifier: MIT
// Rows on CPUs: a unit's share of them, loads with conversion, reductions in one fixed order. An operator's kernel is made of
// these and of row_store.hpp's.
#pragma once

#include "tile/common/row_args.hpp"
#include "tile/cpu/share.hpp"
#include "tile/cpu/vec_io.hpp"
#include "tile/cpu/vec_order.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// 16 elements of a row from n on, or the last `count` of them.
template <bool kWhole>
struct RowPiece {
  static constexpr bool whole = kWhole;
  long long n;
  int count;
};

// body(RowPiece) along a row.
template <class Body>
TILEWRIGHT_INLINE void for_pieces(long long length, Body&& body) {
  long long n = 0;
  for (; n + kVec <= length; n += kVec) body(RowPiece<true>{n, kVec});
  if (n < length) body(RowPiece<false>{n, static_cast<int>(length - n)});
}

// Of the rows: body(RowIndex).
template <class Body>
TILEWRIGHT_INLINE void for_rows(const RowArgs& args, unsigned unit, unsigned units, Body&& body) {
  for_share(args.rows, unit, units, [&](long long row) __attribute__((always_inline)) { body(row_index(args, row)); });
  if (args.stream) stream_fence();
}

// body(TypeTag) of a float type; kNone: `dtype` tells it.
template <DType kType, class Body>
TILEWRIGHT_INLINE auto with_float(DType dtype, Body&& body) {
  if constexpr (kType != DType::kNone) {
    return body(TypeTag<kType>{});
  } else {
    switch (dtype) {
      case DType::kF16: return body(TypeTag<DType::kF16>{});
      case DType::kBf16: return body(TypeTag<DType::kBf16>{});
      default: return body(TypeTag<DType::kF32>{});
    }
  }
}

template <DType kType, bool kWhole>
TILEWRIGHT_INLINE F32x16 load_typed(const char* from, RowPiece<kWhole> at) {
  if constexpr (kWhole) return load_vec<kType>(from);
  return load_tail<kType>(from, at.count);
}
template <DType kType, bool kWhole>
TILEWRIGHT_INLINE void store_typed(char* to, RowPiece<kWhole> at, F32x16 x) {
  if constexpr (kWhole) {
    store_vec<kType>(to, x);
  } else {
    store_tail<kType>(to, x, at.count);
  }
}
// Types that are known at run time only: functions, because a kernel loads in many places. Through memory, because the calling
// convention has no such vectors everywhere.
inline __attribute__((noinline)) void load_any(const char* from, DType dtype, int count, float* to) {
  with_float<DType::kNone>(dtype, [&](auto type) { load_tail<type.value>(from, count).store(to); });
}
inline __attribute__((noinline)) void store_any(char* to, DType dtype, int count, const float* from) {
  with_float<DType::kNone>(dtype, [&](auto type) { store_tail<type.value>(to, F32x16::load(from), count); });
}

// `row` points to the row's first element.
template <DType kType, bool kWhole>
TILEWRIGHT_INLINE F32x16 load_piece(const char* row, DType dtype, RowPiece<kWhole> at) {
  if constexpr (kType != DType::kNone) {
    return load_typed<kType>(row + at.n * kBytes<kType>, at);
  } else {
    float values[kVec];
    load_any(row + at.n * dtype_bits(dtype) / 8, dtype, at.count, values);
    return F32x16::load(values);
  }
}
template <DType kType, bool kWhole>
TILEWRIGHT_INLINE void store_piece(char* row, DType dtype, RowPiece<kWhole> at, F32x16 x) {
  if constexpr (kType != DType::kNone) {
    store_typed<kType>(row + at.n * kBytes<kType>, at, x);
  } else {
    float values[kVec];
    x.store(values);
    store_any(row + at.n * dtype_bits(dtype) / 8, dtype, at.count, values);
  }
}
// What storing and loading again would give.
template <DType kType>
TILEWRIGHT_INLINE F32x16 rounded_to(DType dtype, F32x16 x) {
  if constexpr (kType == DType::kF32) return x;
  if constexpr (kType == DType::kBf16) return as_float(round_to_bf16(x) & I32x16::splat(static_cast<int>(0xFFFF0000u)));
  char buffer[64];
  store_piece<kType>(buffer, dtype, RowPiece<true>{0, kVec}, x);
  return load_piece<kType>(buffer, dtype, RowPiece<true>{0, kVec});
}

TILEWRIGHT_INLINE char* row_start(const RowTensor& t, const RowIndex& at) {
  return static_cast<char*>(t.data) + row_offset(t.stride, at) * dtype_bits(t.dtype) / 8;
}

// What a unit reads next is asked for while it works on what it has: so many bytes on, which is the next row, or some lines of a
// long one. Where rows do not follow each other so, nothing is read that a program may not have.
inline constexpr long long kFetchedRow = 1 << 18, kFetchedLines = 1 << 12;
TILEWRIGHT_INLINE long long fetch_distance(const RowTensor& t) {
  const long long next = t.stride[2] * dtype_bits(t.dtype) / 8;
  return 0 <= next && next <= kFetchedRow ? next : kFetchedLines;
}
TILEWRIGHT_INLINE void fetch(const char* line) { __builtin_prefetch(line); }
// In place of what has a next row: it was fetched before.
struct NothingNext {
  template <bool kWhole>
  TILEWRIGHT_INLINE void fetch_next(RowPiece<kWhole>) const {}
};

// A vector along the row, of any float type.
template <bool kWhole>
TILEWRIGHT_INLINE F32x16 load_column(const RowVector& v, RowPiece<kWhole> at) {
  const char* from = static_cast<const char*>(v.data) + at.n * dtype_bits(v.dtype) / 8;
  return with_float<DType::kNone>(
      v.dtype, [&](auto type) __attribute__((always_inline)) { return load_typed<type.value>(from, at); });
}

// The rows that an operator normalises: x, or x + residual rounded to the residual's type. first() may write the sum, again() gives
// the same values.
template <RowCpuConfig kConfig>
struct RowInput {
  static constexpr bool kTyped = kConfig.x != DType::kNone;
  const RowArgs& args;
  const char *x, *residual;
  char* sum;
  long long x_next, residual_next;  // fetch_distance()

  TILEWRIGHT_INLINE RowInput(const RowArgs& a, const RowIndex& at)
      : args(a),
        x(row_start(a.x, at)),
        residual(row_start(a.residual, at)),
        sum(a.residual_out.data == nullptr ? nullptr : row_start(a.residual_out, at)),
        x_next(fetch_distance(a.x)),
        residual_next(fetch_distance(a.residual)) {}

  TILEWRIGHT_INLINE bool adds() const {
    return kTyped ? kConfig.residual != DType::kNone : args.residual.data != nullptr;
  }
  // x's elements, and the residual's.
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 own(RowPiece<kWhole> at) const {
    return load_piece<kConfig.x>(x, args.x.dtype, at);
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 other(RowPiece<kWhole> at) const {
    return load_piece<kConfig.residual>(residual, args.residual.dtype, at);
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 added(RowPiece<kWhole> at) const {
    const F32x16 v = own(at);
    if (!adds()) return v;
    return rounded_to<kConfig.residual>(args.residual.dtype, v + other(at));
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 first(RowPiece<kWhole> at) const {
    const F32x16 v = added(at);
    if (adds() && sum != nullptr) store_piece<kConfig.residual>(sum, args.residual.dtype, at, v);
    return v;
  }
  // In the last pass over a row.
  template <bool kWhole>
  TILEWRIGHT_INLINE void fetch_next(RowPiece<kWhole> at) const {
    if constexpr (kTyped) {
      fetch(x + at.n * kBytes<kConfig.x> + x_next);
      if (adds()) fetch(residual + at.n * kBytes<kConfig.residual> + residual_next);
    }
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 again(RowPiece<kWhole> at) const {
    // x or the residual may be where the sum stands now.
    if (adds() && sum != nullptr) return load_piece<kConfig.residual>(sum, args.residual.dtype, at);
    return added(at);
  }
};

inline constexpr long long kKeptValues = 8192;  // of a row, which stay near as floats
inline constexpr int kRowFolds = 4;             // partial results that do not wait for each other

// Sums along a row, of what fold(partial sums, piece) adds: always in this order, whatever the instructions are. Lanes behind the
// row's end are folded too.
template <int kSums, class Fold>
TILEWRIGHT_INLINE void sum_row(long long length, float (&sums)[kSums], Fold&& fold) {
  constexpr int kFolds = kRowFolds / kSums;
  F32x16 part[kFolds][kSums];
  unroll<kFolds * kSums>([&](auto i) __attribute__((always_inline)) { part[i / kSums][i % kSums] = F32x16::splat(0); });
  long long n = 0;
  for (; n + kFolds * kVec <= length; n += kFolds * kVec) {
    unroll<kFolds>([&](auto i) __attribute__((always_inline)) { fold(part[i], RowPiece<true>{n + i * kVec, kVec}); });
  }
  for (; n + kVec <= length; n += kVec) fold(part[0], RowPiece<true>{n, kVec});
  if (n < length) fold(part[1], RowPiece<false>{n, static_cast<int>(length - n)});
  unroll<kSums>([&](auto s) __attribute__((always_inline)) {
    F32x16 all = part[0][s] + part[1][s];
    if constexpr (kFolds == 4) all = all + (part[2][s] + part[3][s]);
    sums[s] = sum_lanes(all);
  });
}

// Of squares of value(piece).
template <class Value>
TILEWRIGHT_INLINE float sum_squares(long long length, Value&& value) {
  float sum[1];
  sum_row(length, sum, [&](F32x16(&part)[1], auto at) __attribute__((always_inline)) {
    const F32x16 v = value(at);
    part[0] = fma(v, v, part[0]);
  });
  return sum[0];
}

// Zeros behind the row's end, or `behind`.
template <bool kWhole>
TILEWRIGHT_INLINE F32x16 within_row(F32x16 x, RowPiece<kWhole> at, float behind = 0) {
  if constexpr (kWhole) return x;
  float lane[kVec];
  x.store(lane);
  for (int i = at.count; i < kVec; ++i) lane[i] = behind;
  return F32x16::load(lane);
}

// The larger magnitude; NaN if one of them is: as integers NaN is the largest.
TILEWRIGHT_INLINE F32x16 larger_magnitude(F32x16 most, F32x16 x) {
  return as_float(larger(as_int(most), as_int(absolute(x))));
}
// Of magnitudes.
TILEWRIGHT_INLINE float largest_lane(F32x16 x) { return __builtin_bit_cast(float, largest_lane(as_int(x))); }
template <class Value>
TILEWRIGHT_INLINE float largest_magnitude(long long length, Value&& value) {
  F32x16 most[2] = {F32x16::splat(0), F32x16::splat(0)};
  long long n = 0;
  for (; n + 2 * kVec <= length; n += 2 * kVec) {
    most[0] = larger_magnitude(most[0], value(RowPiece<true>{n, kVec}));
    most[1] = larger_magnitude(most[1], value(RowPiece<true>{n + kVec, kVec}));
  }
  for (; n + kVec <= length; n += kVec) most[0] = larger_magnitude(most[0], value(RowPiece<true>{n, kVec}));
  if (n < length) most[1] = larger_magnitude(most[1], value(RowPiece<false>{n, static_cast<int>(length - n)}));
  return largest_lane(larger_magnitude(most[0], most[1]));
}

// Of numbers.
TILEWRIGHT_INLINE float largest_number(F32x16 x) {
  float lane[kVec];
  x.store(lane);
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    constexpr int kHalf = kVec / 2 >> i;
    for (int j = 0; j < kHalf; ++j) lane[j] = lane[j] > lane[j + kHalf] ? lane[j] : lane[j + kHalf];
  });
  return lane[0];
}
// The largest of value(piece) and `most`. A NaN may be passed over.
template <class Value>
TILEWRIGHT_INLINE float largest_value(long long length, float most, Value&& value) {
  F32x16 part[kRowFolds];
  unroll<kRowFolds>([&](auto i) __attribute__((always_inline)) { part[i] = F32x16::splat(most); });
  long long n = 0;
  for (; n + kRowFolds * kVec <= length; n += kRowFolds * kVec) {
    unroll<kRowFolds>([&](auto i) __attribute__((always_inline)) {
      part[i] = at_least(value(RowPiece<true>{n + i * kVec, kVec}), part[i]);
    });
  }
  for (; n + kVec <= length; n += kVec) part[0] = at_least(value(RowPiece<true>{n, kVec}), part[0]);
  if (n < length) {
    const RowPiece<false> rest{n, static_cast<int>(length - n)};
    part[1] = at_least(within_row(value(rest), rest, most), part[1]);
  }
  return largest_number(at_least(at_least(part[0], part[1]), at_least(part[2], part[3])));
}

// v times the weight, where there is one.
template <bool kWhole>
TILEWRIGHT_INLINE F32x16 load_weight(const RowArgs& args, RowPiece<kWhole> at) {
  const F32x16 weight = load_column(args.weight, at);
  return args.unit_offset ? weight + F32x16::splat(1) : weight;
}
template <bool kWhole>
TILEWRIGHT_INLINE F32x16 times_weight(const RowArgs& args, F32x16 v, RowPiece<kWhole> at) {
  return args.weight.data == nullptr ? v : v * load_weight(args, at);
}
// v * weight + bias, times what smooths columns: what norms end with.
template <bool kWhole>
TILEWRIGHT_INLINE F32x16 scale_columns(const RowArgs& args, F32x16 v, RowPiece<kWhole> at) {
  if (args.bias.data == nullptr) {
    v = times_weight(args, v, at);
  } else {
    const F32x16 bias = load_column(args.bias, at);
    v = args.weight.data == nullptr ? v + bias : fma(v, load_weight(args, at), bias);
  }
  return args.smooth.data != nullptr ? v * load_column(args.smooth, at) : v;
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
