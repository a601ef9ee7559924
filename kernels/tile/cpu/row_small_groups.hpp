// SPDX-License-Identifier: MIT
// Groups of 16 and 32 neighbours, those of MX and NVFP4: 16 groups find their scales together, one in each lane.
#pragma once

#include "tile/cpu/row_codes.hpp"
#include "tile/cpu/row_encode.hpp"
#include "tile/cpu/transpose.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What 16 groups are divided by (divisor_of), and whether all are near one.
struct GroupDivisors {
  alignas(64) float scale[kVec], reciprocal[kVec];
  bool near_one;
};

// The largest lane of each of 16, to the lane of its number.
TILEWRIGHT_INLINE I32x16 largest_of_each(I32x16 (&of)[kVec]) {
#if TILEWRIGHT_AVX512
  // Neighbours halve what they hold and share a register, four times.
  __m512i eight[8], four[4], two[2];
  const auto most = [](__m512i a, __m512i b) { return _mm512_maskz_max_epi32(kAllLanes, a, b); };
  unroll<8>([&](auto i) __attribute__((always_inline)) {
    const __m512i a = of[2 * i].v, b = of[2 * i + 1].v;
    eight[i] = most(_mm512_maskz_unpacklo_epi32(kAllLanes, a, b), _mm512_maskz_unpackhi_epi32(kAllLanes, a, b));
  });
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    const __m512i a = eight[2 * i], b = eight[2 * i + 1];
    four[i] = most(_mm512_maskz_unpacklo_epi64(0xFF, a, b), _mm512_maskz_unpackhi_epi64(0xFF, a, b));
  });
  const auto quarters = [&](__m512i a, __m512i b, auto even, auto odd) __attribute__((always_inline)) {
    return most(_mm512_maskz_shuffle_i32x4(kAllLanes, a, b, even), _mm512_maskz_shuffle_i32x4(kAllLanes, a, b, odd));
  };
  unroll<2>([&](auto i) __attribute__((always_inline)) {
    two[i] = quarters(four[2 * i], four[2 * i + 1], Index<0x44>{}, Index<0xEE>{});
  });
  return {quarters(two[0], two[1], Index<0x88>{}, Index<0xDD>{})};
#else
  transpose_16x16(of);
  I32x16 all = of[0];
  unroll<kVec - 1>([&](auto i) __attribute__((always_inline)) { all = larger(all, of[i + 1]); });
  return all;
#endif
}

// quantise.hpp's power_scale_for of each lane, as codes.
TILEWRIGHT_INLINE I32x16 power_scales_for(F32x16 most, DType out, ScaleRounding rounding) {
  const I32x16 zero = I32x16::splat(0), one = I32x16::splat(1), bits = as_int(most);
  if (any_greater(I32x16::splat(0x00800000), bits) || any_greater(bits, I32x16::splat(0x7F7FFFFF))) {
    // Zeros, subnormal numbers, infinities and NaN.
    alignas(64) float of[kVec];
    alignas(64) int codes[kVec];
    most.store(of);
    for (int g = 0; g < kVec; ++g) codes[g] = power_scale_for(of[g], out, rounding).bits;
    return I32x16::load(codes);
  }
  const int limit = __builtin_bit_cast(int, quantised_limit(out));
  const I32x16 half = I32x16::splat(rounding == ScaleRounding::kEven ? 1 << (22 - mantissa_bits(out)) : 0);
  const I32x16 rounded = bits + half, rest = rounded & I32x16::splat(0x7FFFFF);
  I32x16 code = shift_right<23>(rounded) - I32x16::splat((limit >> 23) - 127);
  if (rounding == ScaleRounding::kUp) {
    code = code + select_greater(rest, I32x16::splat(limit & 0x7FFFFF), one, zero);
  } else if (rounding == ScaleRounding::kCeil) {
    code = code + select_greater(rest, zero, one, zero);
  }
  return smaller(larger(code, zero), I32x16::splat(254));
}

// x over a and over b. Divisions hold their port for many cycles, and all is near one but for zeros and numbers at the ends of f32.
TILEWRIGHT_INLINE F32x16 divided_twice(F32x16 x, float a, float b) {
  const auto bits = [](float f) { return __builtin_bit_cast(int, f); };
  const float magnitude = b < 0 ? -b : b;
  const bool near_one = magnitude >= 0x1p-40f && magnitude <= 0x1p40f &&
                        !any_greater(I32x16::splat(bits(0x1p-40f)), as_int(x)) &&
                        !any_greater(as_int(x), I32x16::splat(bits(0x1p40f)));
  if (__builtin_expect(near_one, 1)) return divided<true>(divided<true>(x, divisor_of(a)), divisor_of(b));
  return x / F32x16::splat(a) / F32x16::splat(b);
}

// Writes the scales of the first `count` groups, from the largest magnitude of each (store_scale).
TILEWRIGHT_INLINE void store_scales(const QuantisedScales& scales, DType out, long long at, int count, F32x16 most,
                                    GroupDivisors& by) {
  const F32x16 zero = F32x16::splat(0), one = F32x16::splat(1);
  const auto not_zero = [&](F32x16 x) __attribute__((always_inline)) {
    return as_float(select_greater(as_int(absolute(x)), as_int(zero), as_int(x), as_int(one)));
  };
  const auto store_bytes = [&](I32x16 codes) __attribute__((always_inline)) {
    alignas(16) unsigned char bytes[kVec];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), low_bytes(codes));
    auto* const to = static_cast<unsigned char*>(scales.data) + at;
    if (count == kVec && scales.stride_group == 1) {
      __builtin_memcpy(to, bytes, kVec);
    } else {
      for (int g = 0; g < count; ++g) to[g * scales.stride_group] = bytes[g];
    }
  };
  F32x16 scale = zero;
  if (scales.dtype == DType::kE8M0) {
    const I32x16 codes = power_scales_for(most, out, scales.rounding);
    store_bytes(codes);
    scale = power_of_code(codes);
  } else if (scales.dtype == DType::kF8E4M3) {
    const F32x16 of_all = F32x16::splat(of_tensor(scales));
    const I32x16 found = narrow_codes<DType::kF8E4M3>(divided_twice(most, quantised_limit(out), of_tensor(scales)));
    // The smallest one divides as well as zero does.
    const I32x16 magnitude = found & I32x16::splat(0x7F);
    const I32x16 codes = select_greater(magnitude, I32x16::splat(0), found, I32x16::splat(1));
    store_bytes(codes);
    const F32x16 value = widen_magnitude<e4m3::Format>(codes & I32x16::splat(0x7F));
    const F32x16 number = select_less(F32x16::splat(448), value, as_float(I32x16::splat(0x7FC00000)), value);
    scale = not_zero(as_float(as_int(number) | shift_left<24>(codes & I32x16::splat(0x80))) * of_all);
  } else {
    scale = not_zero(most / F32x16::splat(quantised_limit(out)));
    alignas(64) float found[kVec];
    scale.store(found);
    for (int g = 0; g < count; ++g) {
      __builtin_memcpy(static_cast<float*>(scales.data) + at + g * scales.stride_group, found + g, 4);
    }
  }
  scale.store(by.scale);
  (one / scale).store(by.reciprocal);
  const F32x16 magnitude = absolute(scale);
  const F32x16 far =
      select_less(magnitude, F32x16::splat(0x1p-100f), one, select_less(F32x16::splat(0x1p100f), magnitude, one, zero));
  by.near_one = !any_greater(as_int(select_nan(scale, one, far)), as_int(zero));
}

// 16 groups of 16 kCount neighbours, between their largest values and their codes.
template <int kCount>
struct GroupSpan {
  static constexpr int kGroup = kCount * kVec, kElements = kVec * kGroup;
  alignas(64) float values[kElements];
  GroupDivisors by;

  // The elements from `begin` on, and their scales; `length` of them, or fewer at the row's end.
  template <DType kOut, class Next, class Value>
  TILEWRIGHT_INLINE void read(const RowArgs& args, long long begin, int length, long long scale_at, const Next& next,
                              Value&& value) {
    const int groups = (length + kGroup - 1) / kGroup;
    I32x16 most[kVec];
    for (I32x16& one : most) one = I32x16::splat(0);
    const auto take_group = [&](int g) __attribute__((always_inline)) {
      const int first = g * kGroup, there = length - first < kGroup ? length - first : kGroup;
      const auto take = [&](auto piece) __attribute__((always_inline)) {
        const decltype(piece) here{begin + first + piece.n, piece.count};
        next.fetch_next(here);
        const F32x16 x = value(here);
        x.store(values + first + piece.n);
        return x;
      };
      F32x16 mine = F32x16::splat(0);
      if (there == kGroup) {
        mine = absolute(take(RowPiece<true>{0, kVec}));
        unroll<kCount - 1>([&](auto i) __attribute__((always_inline)) {
          mine = larger_magnitude(mine, take(RowPiece<true>{(i + 1) * kVec, kVec}));
        });
      } else {
        for_pieces(there,
                   [&](auto piece) __attribute__((always_inline)) { mine = larger_magnitude(mine, take(piece)); });
      }
      most[g] = as_int(mine);
    };
    constexpr int kTogether = 4;
    int g = 0;
    for (; g + kTogether <= groups; g += kTogether) {
      unroll<kTogether>([&](auto i) __attribute__((always_inline)) { take_group(g + i); });
    }
    for (; g < groups; ++g) take_group(g);
    store_scales(args.scale, kOut, scale_at, groups, as_float(largest_of_each(most)), by);
  }
  // Their codes.
  template <DType kOut, class Round>
  TILEWRIGHT_INLINE void write(char* to, long long begin, int length, bool stream, Round&& round) const {
    const auto quotients = [&](int n, bool near_one) __attribute__((always_inline)) {
      const Divisor mine{by.scale[n / kGroup], by.reciprocal[n / kGroup], near_one};
      return round(divided<true>(F32x16::load(values + n), mine), begin + n);
    };
    // A line at a time where all scales are ordinary numbers.
    constexpr int kLine = 32 / dtype_bits(kOut);  // vectors
    int n = 0;
    for (; by.near_one && n + kLine * kVec <= length; n += kLine * kVec) {
      F32x16 v[kLine];
      unroll<kLine>([&](auto i) __attribute__((always_inline)) { v[i] = quotients(n + i * kVec, true); });
      encode_many<kOut, true>(to + n * dtype_bits(kOut) / 8, v, stream);
    }
    for (; n < length; n += kVec) {
      encode_tail<kOut>(to + n * dtype_bits(kOut) / 8, quotients(n, false), length - n < kVec ? length - n : kVec);
    }
  }
};

// Groups of 16 kCount neighbours of a row, each value by `value(piece)`. A span is read before the one in front of it is written, while
// that one's scales are made.
template <DType kOut, int kCount, class Next, class Value, class Round>
TILEWRIGHT_INLINE void encode_small_groups(const RowArgs& args, const RowIndex& at, char* row, const Next& next,
                                           Value&& value, Round&& round) {
  using Span = GroupSpan<kCount>;
  const bool stream = args.stream && begins_line(row);
  const long long first_scale = row_offset(args.scale.stride, at);
  const long long spans = (args.n + Span::kElements - 1) / Span::kElements;
  const auto length = [&](long long s) {
    const long long rest = args.n - s * Span::kElements;
    return rest < Span::kElements ? static_cast<int>(rest) : Span::kElements;
  };
  Span two[2];
  for (long long s = 0; s <= spans; ++s) {
    if (s < spans) {
      two[s % 2].template read<kOut>(args, s * Span::kElements, length(s),
                                     first_scale + s * kVec * args.scale.stride_group, next, value);
    }
    if (s == 0) continue;
    const long long begin = (s - 1) * Span::kElements;
    two[(s - 1) % 2].template write<kOut>(row + begin * dtype_bits(kOut) / 8, begin, length(s - 1), stream, round);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
