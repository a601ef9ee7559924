// SPDX-License-Identifier: MIT
// Groups of 16 and 32 neighbours, those of MX and NVFP4: 16 groups find their scales together, one in each lane.
#pragma once

#include "tile/cpu/row_codes.hpp"
#include "tile/cpu/row_encode.hpp"
#include "tile/cpu/row_plain.hpp"
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

#if TILEWRIGHT_AVX512
// The largest magnitude of each of 16 groups of 16 kCount neighbours of bf16 or f16, as they lie: numbers in the order of what they
// mean, NaN above all.
template <DType kType, int kCount>
TILEWRIGHT_INLINE F32x16 largest_words_of_each(const char* from) {
  constexpr int kVectors = 8 * kCount;  // of 32 words
  const auto most = [](__m512i a, __m512i b) { return _mm512_max_epu16(a, b); };
  __m512i all[kVectors];
  unroll<kVectors>([&](auto i) __attribute__((always_inline)) {
    all[i] = _mm512_and_si512(_mm512_loadu_si512(from + 64 * i), _mm512_set1_epi16(0x7FFF));
  });
  // Neighbours halve what they hold of each 16 bytes and share a register, three times: a word for each of eight vectors.
  unroll<kVectors / 2>([&](auto i) __attribute__((always_inline)) {
    const __m512i a = all[2 * i], b = all[2 * i + 1];
    all[i] = most(_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
  });
  unroll<kVectors / 4>([&](auto i) __attribute__((always_inline)) {
    const __m512i a = all[2 * i], b = all[2 * i + 1];
    all[i] = most(_mm512_maskz_unpacklo_epi32(kAllLanes, a, b), _mm512_maskz_unpackhi_epi32(kAllLanes, a, b));
  });
  unroll<kVectors / 8>([&](auto i) __attribute__((always_inline)) {
    const __m512i a = all[2 * i], b = all[2 * i + 1];
    all[i] = most(_mm512_maskz_unpacklo_epi64(0xFF, a, b), _mm512_maskz_unpackhi_epi64(0xFF, a, b));
  });
  if constexpr (kCount == 2) {
    // Quarters of a group lie 16 bytes apart: the first eight groups' become the lower half, the others' the upper.
    all[0] = most(_mm512_maskz_shuffle_i32x4(kAllLanes, all[0], all[1], 0x44),
                  _mm512_maskz_shuffle_i32x4(kAllLanes, all[0], all[1], 0xEE));
  }
  all[0] = most(all[0], _mm512_maskz_shuffle_i32x4(kAllLanes, all[0], all[0], 0xB1));
  // The first and third quarters: words of even and odd groups of 16, of the first and the last eight of 32.
  alignas(64) static constexpr auto kOrder = [] {
    struct Words {
      unsigned short word[32];
    } order{};
    for (int g = 0; g < kVec; ++g) {
      const auto at = static_cast<unsigned short>(kCount == 1 ? g / 2 + 16 * (g % 2) : g % 8 + 16 * (g / 8));
      order.word[kType == DType::kBf16 ? 2 * g + 1 : g] = at;
    }
    return order;
  }();
  const __m512i order = _mm512_load_si512(kOrder.word);
  if constexpr (kType == DType::kBf16)
    return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, order, all[0]))};
  return {_mm512_maskz_cvtph_ps(kAllLanes, _mm512_castsi512_si256(_mm512_permutexvar_epi16(order, all[0])))};
}
#elif TILEWRIGHT_AVX2
// The same.
template <DType kType, int kCount>
TILEWRIGHT_INLINE F32x16 largest_words_of_each(const char* from) {
  const auto most = [](__m256i a, __m256i b) { return _mm256_max_epu16(a, b); };
  const auto magnitudes = [from](int i) __attribute__((always_inline)) {
    return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + i), _mm256_set1_epi16(0x7FFF));
  };
  // Two groups halve what they hold of each 16 bytes and share a register, three times: a word in both halves for each of eight.
  const auto two = [&](int g) __attribute__((always_inline)) {
    __m256i of[2];
    unroll<2>([&](auto i) __attribute__((always_inline)) {
      of[i] = magnitudes((g + i) * kCount);
      unroll<kCount - 1>(
          [&](auto j) __attribute__((always_inline)) { of[i] = most(of[i], magnitudes((g + i) * kCount + j + 1)); });
    });
    return most(_mm256_unpacklo_epi16(of[0], of[1]), _mm256_unpackhi_epi16(of[0], of[1]));
  };
  const auto four = [&](int g) __attribute__((always_inline)) {
    const __m256i a = two(g), b = two(g + 2);
    return most(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const auto eight = [&](int g) __attribute__((always_inline)) {
    const __m256i a = four(g), b = four(g + 4);
    return most(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  };
  const __m256i low = eight(0), high = eight(8);
  const __m256i all = most(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
  const __m128i halves[2] = {_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)};
  if constexpr (kType == DType::kBf16)
    return widen_bf16({{_mm256_cvtepu16_epi32(halves[0])}, {_mm256_cvtepu16_epi32(halves[1])}});
  return {{_mm256_cvtph_ps(halves[0])}, {_mm256_cvtph_ps(halves[1])}};
}
#endif

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

// All but zeros, numbers at the ends of f32, infinities and NaN.
TILEWRIGHT_INLINE bool near_one(F32x16 x) {
  const auto bits = [](float f) { return I32x16::splat(__builtin_bit_cast(int, f)); };
  return !any_greater(bits(0x1p-40f), as_int(x)) && !any_greater(as_int(x), bits(0x1p40f));
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
    const float limit = quantised_limit(out), tensor = of_tensor(scales);
    const F32x16 of_all = F32x16::splat(tensor);
    // Mostly no scale is a NaN or zero, or far from one: nothing asks.
    if (__builtin_expect(tensor >= 0x1p-40f && tensor <= 0x1p40f && near_one(most), 1)) {
      const F32x16 quotients = divided<true>(divided<true>(most, divisor_of(limit)), divisor_of(tensor));
      const I32x16 codes = larger(narrow_codes<DType::kF8E4M3, true>(quotients), I32x16::splat(1));
      store_bytes(codes);
      scale = widen_magnitude<e4m3::Format>(codes) * of_all;
      scale.store(by.scale);
      (one / scale).store(by.reciprocal);
      by.near_one = true;
      return;
    }
    const I32x16 found = narrow_codes<DType::kF8E4M3>(most / F32x16::splat(limit) / of_all);
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
  const F32x16 magnitude = absolute(scale), largest = F32x16::splat(0x1.FFFFFEp127f);
  F32x16 far =
      select_less(magnitude, F32x16::splat(0x1p-100f), one, select_less(F32x16::splat(0x1p100f), magnitude, one, zero));
  far =
      select_less(largest, most, one, far);  // beside an infinity scales of e4m3 stay finite, and its quotient is none
  by.near_one = !any_greater(as_int(select_nan(scale, one, far)), as_int(zero));
}

// 16 groups of 16 kCount neighbours, between their largest values and their codes. kWords: values are read again, not kept.
template <int kCount, bool kWords>
struct GroupSpan {
  static constexpr int kGroup = kCount * kVec, kElements = kVec * kGroup;
  alignas(64) float values[kWords ? 1 : kElements];
  GroupDivisors by;

  // The elements from `begin` on; `length` of them, or fewer at the row's end. The largest magnitude of each group.
  template <class Next, class Value>
  TILEWRIGHT_INLINE F32x16 read(long long begin, int length, const Next& next, Value& value) {
#if TILEWRIGHT_AVX2
    if constexpr (kWords) {
      if (length == kElements) {
        constexpr DType kType = Value::kType;
        for (int n = 0; n < kElements; n += 2 * kVec) next.fetch_next(RowPiece<true>{begin + n, kVec});
        return largest_words_of_each<kType, kCount>(value.x + begin * kBytes<kType>);
      }
    }
#endif
    const int groups = groups_in(length);
    I32x16 most[kVec];
    for (I32x16& one : most) one = I32x16::splat(0);
    const auto take_group = [&](int g) __attribute__((always_inline)) {
      const int first = g * kGroup, there = length - first < kGroup ? length - first : kGroup;
      const auto take = [&](auto piece) __attribute__((always_inline)) {
        const decltype(piece) here{begin + first + piece.n, piece.count};
        next.fetch_next(here);
        const F32x16 x = value(here);
        if constexpr (!kWords) x.store(values + first + piece.n);
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
    return as_float(largest_of_each(most));
  }
  static constexpr int groups_in(int length) { return (length + kGroup - 1) / kGroup; }

  // Their codes.
  template <DType kOut, class Value, class Round>
  TILEWRIGHT_INLINE void write(char* to, long long begin, int length, bool stream, Value& value, Round&& round) const {
    const auto quotients = [&](auto piece, bool near_one) __attribute__((always_inline)) {
      const Divisor mine{by.scale[piece.n / kGroup], by.reciprocal[piece.n / kGroup], near_one};
      F32x16 x;
      if constexpr (kWords) {
        x = value(decltype(piece){begin + piece.n, piece.count});
      } else {
        x = F32x16::load(values + piece.n);
      }
      return round(divided<true>(x, mine), begin + piece.n);
    };
    // A line at a time where all scales are ordinary numbers.
    constexpr int kLine = 32 / dtype_bits(kOut);  // vectors
    int n = 0;
    for (; by.near_one && n + kLine * kVec <= length; n += kLine * kVec) {
      F32x16 v[kLine];
      unroll<kLine>([&](auto i)
                        __attribute__((always_inline)) { v[i] = quotients(RowPiece<true>{n + i * kVec, kVec}, true); });
      encode_many<kOut, true>(to + n * dtype_bits(kOut) / 8, v, stream);
    }
    for (; n < length; n += kVec) {
      const RowPiece<false> piece{n, length - n < kVec ? length - n : kVec};
      encode_tail<kOut>(to + n * dtype_bits(kOut) / 8, quotients(piece, false), piece.count);
    }
  }
};

// Groups of 16 kCount neighbours of a row, each value by `value(piece)`. Scales of kSpans spans are made one behind the other, so that
// their long chains of instructions run together, and then the spans in front of these are written.
template <DType kOut, int kCount, class Next, class Value, class Round>
TILEWRIGHT_INLINE void encode_small_groups(const RowArgs& args, const RowIndex& at, char* row, const Next& next,
                                           Value& value, Round&& round) {
  using Span = GroupSpan<kCount, HasWords<Value>>;
  constexpr int kSpans = kCount == 1 ? 4 : 1;  // of 32 neighbours they would take the first cache from what is read
  const bool stream = args.stream && begins_line(row);
  const long long first_scale = row_offset(args.scale.stride, at);
  const long long spans = (args.n + Span::kElements - 1) / Span::kElements;
  const auto length = [&](long long s) {
    const long long rest = args.n - s * Span::kElements;
    return rest < Span::kElements ? static_cast<int>(rest) : Span::kElements;
  };
  Span turns[2][kSpans];
  for (long long first = 0; first < spans + kSpans; first += kSpans) {
    const auto for_spans = [&](long long from, auto&& body) __attribute__((always_inline)) {
      Span* const of = turns[from / kSpans % 2];
      const int count = spans - from < kSpans ? static_cast<int>(spans - from) : kSpans;
      for (int i = 0; i < count; ++i) body(of[i], i, from + i);
    };
    F32x16 most[kSpans];
    for_spans(first, [&](Span& span, int i, long long s) __attribute__((always_inline)) {
      most[i] = span.read(s * Span::kElements, length(s), next, value);
    });
    for_spans(first, [&](Span& span, int i, long long s) __attribute__((always_inline)) {
      const long long scale_at = first_scale + s * kVec * args.scale.stride_group;
      store_scales(args.scale, kOut, scale_at, Span::groups_in(length(s)), most[i], span.by);
    });
    if (first == 0) continue;
    for_spans(first - kSpans, [&](Span& span, int, long long s) __attribute__((always_inline)) {
      const long long begin = s * Span::kElements;
      span.template write<kOut>(row + begin * dtype_bits(kOut) / 8, begin, length(s), stream, value, round);
    });
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
