// SPDX-License-Identifier: MIT
// Groups of 16 and 32 neighbours, those of MX and NVFP4: 16 groups find their scales together, one in each lane.
#pragma once

#include "tile/cpu/row_codes.hpp"
#include "tile/cpu/row_encode.hpp"
#include "tile/cpu/transpose.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What 16 groups are divided by (divisor_of).
struct GroupDivisors {
  alignas(64) float scale[kVec], reciprocal[kVec];

  TILEWRIGHT_INLINE Divisor of(int group) const {
    const float magnitude = scale[group] < 0 ? -scale[group] : scale[group];
    return {scale[group], reciprocal[group], magnitude >= 0x1p-100f && magnitude <= 0x1p100f};
  }
};

// Writes the scales of the first `count` groups, from the largest magnitude of each (store_scale).
TILEWRIGHT_INLINE void store_scales(const QuantisedScales& scales, DType out, long long at, int count, F32x16 most,
                                    GroupDivisors& by) {
  const F32x16 zero = F32x16::splat(0), one = F32x16::splat(1);
  const auto not_zero = [&](F32x16 x) __attribute__((always_inline)) {
    return as_float(select_greater(as_int(absolute(x)), as_int(zero), as_int(x), as_int(one)));
  };
  F32x16 scale = most / F32x16::splat(quantised_limit(out));
  if (scales.dtype == DType::kE8M0) {
    alignas(64) float of[kVec];
    most.store(of);
    for (int g = 0; g < kVec; ++g) {
      const e8m0 code = power_scale_for(of[g], out, scales.rounding);
      if (g < count) static_cast<e8m0*>(scales.data)[at + g * scales.stride_group] = code;
      by.scale[g] = widen(code);
    }
    scale = F32x16::load(by.scale);
  } else if (scales.dtype == DType::kF8E4M3) {
    const F32x16 of_all = F32x16::splat(of_tensor(scales));
    alignas(16) unsigned char codes[kVec];
    store_codes<DType::kF8E4M3>(codes, narrow_codes<DType::kF8E4M3>(scale / of_all));
    for (int g = 0; g < kVec; ++g) {
      codes[g] = (codes[g] & 0x7F) == 0 ? 1 : codes[g];  // the smallest one divides as well
      if (g < count) static_cast<unsigned char*>(scales.data)[at + g * scales.stride_group] = codes[g];
    }
    scale = not_zero(widen_codes<DType::kF8E4M3>(codes) * of_all);
  } else {
    scale = not_zero(scale);
    scale.store(by.scale);
    for (int g = 0; g < count; ++g) {
      __builtin_memcpy(static_cast<float*>(scales.data) + at + g * scales.stride_group, by.scale + g, 4);
    }
  }
  scale.store(by.scale);
  (one / scale).store(by.reciprocal);
}

// Groups of 16 kCount neighbours of a row, each value by `value(piece)`.
template <DType kOut, int kCount, class Next, class Value, class Round>
TILEWRIGHT_INLINE void encode_small_groups(const RowArgs& args, const RowIndex& at, char* row, const Next& next,
                                           Value&& value, Round&& round) {
  constexpr int kGroup = kCount * kVec, kSpan = kVec * kGroup;
  const bool stream = args.stream && reinterpret_cast<unsigned long long>(row) % 64 == 0;
  long long scale_at = row_offset(args.scale.stride, at);
  for (long long begin = 0; begin < args.n; begin += kSpan, scale_at += kVec * args.scale.stride_group) {
    const int length = args.n - begin < kSpan ? static_cast<int>(args.n - begin) : kSpan;
    const int groups = (length + kGroup - 1) / kGroup;
    alignas(64) float values[kSpan];
    I32x16 most[kVec];
    for (I32x16& one : most) one = I32x16::splat(0);
    for_pieces(length, [&](auto piece) __attribute__((always_inline)) {
      const decltype(piece) here{begin + piece.n, piece.count};
      next.fetch_next(here);
      const F32x16 x = value(here);
      x.store(values + piece.n);
      I32x16& mine = most[piece.n / kGroup];
      mine = larger(mine, as_int(absolute(x)));
    });
    // The largest of each group, to its lane.
    transpose_16x16(most);
    I32x16 all = most[0];
    unroll<kVec - 1>([&](auto i) __attribute__((always_inline)) { all = larger(all, most[i + 1]); });
    GroupDivisors by;
    store_scales(args.scale, kOut, scale_at, groups, as_float(all), by);

    // A line at a time; what is left over through a buffer.
    char* const to = row + begin * dtype_bits(kOut) / 8;
    const auto quotients = [&](int n) __attribute__((always_inline)) {
      return round(divided<true>(F32x16::load(values + n), by.of(n / kGroup)), begin + n);
    };
    constexpr int kLine = 32 / dtype_bits(kOut);  // vectors
    int n = 0;
    for (; n + kLine * kVec <= length; n += kLine * kVec) {
      F32x16 v[kLine];
      unroll<kLine>([&](auto i) __attribute__((always_inline)) { v[i] = quotients(n + i * kVec); });
      encode_many<kOut>(to + n * dtype_bits(kOut) / 8, v, stream);
    }
    for (; n < length; n += kVec) {
      encode_tail<kOut>(to + n * dtype_bits(kOut) / 8, quotients(n), length - n < kVec ? length - n : kVec);
    }
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
