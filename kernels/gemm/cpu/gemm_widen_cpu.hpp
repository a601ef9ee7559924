// SPDX-License-Identifier: MIT
// Rows of A or columns of B of any type as lines of f32: 16 of them side by side, a line for each k. Exact; any strides. Fast where
// k is contiguous, where the 16 are, and of packed panels.
#pragma once

#include "gemm/cpu/gemm_pack_cpu.hpp"
#include "tile/cpu/dequant.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// An operand of a batch entry, its rows or columns being the "outer" ones. Strides count elements.
struct WidenOperand {
  const char* data;
  int64 offset;  // of its first element
  int64 stride_outer, stride_k;
  bool packed;  // panels of gemm_packed_layout.hpp: `panel` bytes each
  int64 panel_bytes;
};

// Elements of K whose lines are made at a time: 16 columns of 64 bytes of 4-bit elements.
inline constexpr int kWidenLines = 128;

// A 32-bit word in each lane has 32 / bits elements.
template <DType kType>
inline constexpr int kInWord = 32 / dtype_bits(kType);

// All elements of each lane's word: the lines of k, k + 1, ...
template <DType kType>
TILEWRIGHT_INLINE void widen_words(I32x16 words, float* lines) {
  constexpr int kBits = dtype_bits(kType);
  if constexpr (kBits == 4) {
    const NibbleFloats<kType> nibbles;
    unroll<8>([&](auto i)
                  __attribute__((always_inline)) { nibbles.template get<i.value>(words).store(lines + i * 16); });
  } else if constexpr (kBits == 8) {
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      widen_byte_lanes<kType>(shift_right_signed<24>(shift_left<24 - 8 * i.value>(words))).store(lines + i * 16);
    });
  } else if constexpr (kType == DType::kBf16) {
    as_float(shift_left<16>(words)).store(lines);
    as_float(words & I32x16::splat(static_cast<int>(0xFFFF0000u))).store(lines + 16);
  } else if constexpr (kType == DType::kF16) {
    alignas(64) unsigned char halves[32];
    words.narrow_16(halves);
    F32x16::load_f16(halves).store(lines);
    shift_right<16>(words).narrow_16(halves);
    F32x16::load_f16(halves).store(lines + 16);
  } else {
    as_float(words).store(lines);
  }
}

// Element `index`, counted from `data`, into place `to` of a row of words.
template <DType kType>
TILEWRIGHT_INLINE void copy_element(const char* data, int64 index, unsigned char* row, int64 to) {
  if constexpr (dtype_bits(kType) == 4) {
    const unsigned code = nibble_at(reinterpret_cast<const unsigned char*>(data), index);
    row[to >> 1] = static_cast<unsigned char>(row[to >> 1] | code << (to & 1) * 4);
  } else {
    __builtin_memcpy(row + to * kBytes<kType>, data + index * kBytes<kType>, kBytes<kType>);
  }
}

// 16 neighbours along the outer dimension, from a whole byte on.
template <DType kType>
TILEWRIGHT_INLINE F32x16 widen_neighbours(const char* from) {
  if constexpr (kType == DType::kF4E2M1) {
    // As words: two halves of 8, a word's element in each of 8 lanes.
    alignas(64) int lanes[16];
    for (int i = 0; i < 16; ++i)
      lanes[i] = static_cast<int>(nibble_at(reinterpret_cast<const unsigned char*>(from), i));
    return NibbleFloats<kType>().template get<0>(I32x16::load(lanes));
  } else if constexpr (dtype_bits(kType) == 4) {
    return widen_nibbles<kType>(from);
  } else if constexpr (dtype_bits(kType) == 8) {
    return widen_byte_lanes<kType>(I32x16::widen_i8(from));
  } else {
    return load_vec<kType>(from);
  }
}

// emit(words, i): the words of 16 rows or columns from `outer` on, `outers` of which there are, that hold elements k + i and the next
// ones of each, for all i < count. What is not there is 0.
template <DType kType, class Emit>
TILEWRIGHT_INLINE void for_each_word(const WidenOperand& o, int64 outer, int outers, int64 k, int64 count,
                                     Emit&& emit) {
  constexpr int kBits = dtype_bits(kType), kEach = kInWord<kType>, kChunk = 16 * kEach;
  if (o.packed) {
    // Lines of packed panels are such words.
    const char* const line = o.data + outer / kPanelColumns * o.panel_bytes + k / kEach * 64;
    for (int64 i = 0; i < count; i += kEach) emit(I32x16::load(line + i / kEach * 64), i);
    return;
  }
  const int64 first = o.offset + outer * o.stride_outer + k * o.stride_k;
  const auto at = [&](int64 element) { return o.data + element * kBits / 8; };
  const bool rows = o.stride_k == 1 && (kBits >= 8 || (first % 2 == 0 && o.stride_outer % 2 == 0));
  for (int64 from = 0; from < count; from += kChunk) {
    const int64 some = blocking::smaller(kChunk, count - from);
    I32x16 words[16];
    if (rows && some == kChunk && outers == 16) {
      unroll<16>([&](auto j) __attribute__((always_inline)) {
        words[j] = I32x16::load(at(first + j * o.stride_outer + from));
      });
    } else {
      for (int j = 0; j < 16; ++j) {
        alignas(64) unsigned char row[64] = {};
        if (j < outers && rows) {
          __builtin_memcpy(row, at(first + j * o.stride_outer + from),
                           static_cast<unsigned long>((some * kBits + 7) / 8));
        } else if (j < outers) {
          for (int64 i = 0; i < some; ++i) {
            copy_element<kType>(o.data, first + j * o.stride_outer + (from + i) * o.stride_k, row, i);
          }
        }
        words[j] = I32x16::load(row);
      }
    }
    transpose_16x16(words);
    for (int w = 0; w < 16 && w * kEach < some; ++w) emit(words[w], from + w * kEach);
  }
}

// 16 neighbours along the outer dimension lie side by side, from whole bytes on.
template <DType kType>
TILEWRIGHT_INLINE bool has_neighbours(const WidenOperand& o, int64 outer, int outers, int64 k) {
  const int64 first = o.offset + outer * o.stride_outer + k * o.stride_k;
  const bool whole = dtype_bits(kType) >= 8 || (first % 2 == 0 && o.stride_k % 2 == 0);
  return !o.packed && o.stride_outer == 1 && o.stride_k != 1 && outers == 16 && whole;
}

// lines[i][j] = element k + i of outer + j, for i < count <= kWidenLines and j < outers <= 16; 0 for further j. k is a multiple of
// kWidenLines. A few lines past `count` may be written.
template <DType kType>
void widen_lines(const WidenOperand& o, int64 outer, int outers, int64 k, int64 count, float* lines) {
  if (kType == DType::kF16 && o.packed) {
    // The one type whose lines are not of words: 16 halves.
    const char* const panel = o.data + outer / kPanelColumns * o.panel_bytes;
    for (int64 i = 0; i < count; ++i) F32x16::load_f16(panel + (k + i) * 32).store(lines + i * 16);
  } else if (has_neighbours<kType>(o, outer, outers, k)) {
    const char* const first = o.data + (o.offset + outer + k * o.stride_k) * dtype_bits(kType) / 8;
    for (int64 i = 0; i < count; ++i) {
      widen_neighbours<kType>(first + i * o.stride_k * dtype_bits(kType) / 8).store(lines + i * 16);
    }
  } else {
    for_each_word<kType>(o, outer, outers, k, count, [&](I32x16 words, int64 i) __attribute__((always_inline)) {
      widen_words<kType>(words, lines + i * 16);
    });
  }
}

// ---- Pairs of bf16 ----------------------------------------------------------------------------------------------------

// Types whose words become pairs of bf16 with few instructions; zero points are of the same type as 4-bit integers.
template <DType kType>
inline constexpr bool kHasPairs =
    TILEWRIGHT_AVX512 != 0 && (dtype_bits(kType) == 4 || kType == DType::kI8 || is_ocp_f8(kType));

// pairs[i][j]: elements k + 2 i and k + 2 i + 1 of outer + j as bf16, for 2 i < count <= kWidenLines, less the zero points of
// their group of `group` of K: zeros[group][16], or null. As widen_lines, but for has_neighbours().
template <DType kType>
void widen_pairs(const WidenOperand& o, int64 outer, int outers, int64 k, int64 count, const float* zeros, int64 group,
                 char* pairs);

#if TILEWRIGHT_AVX512

// bf16 of whole numbers -16 to 15.
struct WholeWords {
  alignas(64) unsigned short words[32];
};
constexpr WholeWords make_whole_words() {
  WholeWords t{};
  for (int i = 0; i < 32; ++i) {
    t.words[i] = static_cast<unsigned short>(__builtin_bit_cast(unsigned, static_cast<float>(i - 16)) >> 16);
  }
  return t;
}
inline constexpr WholeWords kWholeWords = make_whole_words();

// bf16 of the codes of 8-bit floats that are subnormal: multiples of the smallest.
template <DType kType>
constexpr WholeWords make_subnormal_words() {
  WholeWords t{};
  for (unsigned i = 0; i < 32; ++i) {
    const float value = kType == DType::kF8E4M3 ? widen(e4m3{static_cast<unsigned char>(i & 7)})
                                                : widen(e5m2{static_cast<unsigned char>(i & 3)});
    t.words[i] = static_cast<unsigned short>(__builtin_bit_cast(unsigned, value) >> 16);
  }
  return t;
}
template <DType kType>
inline constexpr WholeWords kSubnormalWords = make_subnormal_words<kType>();

inline constexpr __mmask32 kAllWords = 0xFFFFFFFF, kUpperWords = 0xAAAAAAAA;
TILEWRIGHT_INLINE I32x16 splat_words(int word) { return {_mm512_set1_epi16(static_cast<short>(word))}; }
TILEWRIGHT_INLINE I32x16 look_up_words(I32x16 at, I32x16 table) {
  return {_mm512_maskz_permutexvar_epi16(kAllWords, at.v, table.v)};
}

// 8-bit floats in words, zero-extended, as bf16.
template <DType kType>
TILEWRIGHT_INLINE I32x16 words_of_f8(I32x16 codes, I32x16 subnormal_words) {
  constexpr bool kE4M3 = kType == DType::kF8E4M3;
  constexpr int kShift = kE4M3 ? 4 : 5, kRebias = (127 - (kE4M3 ? 7 : 15)) << 7, kSubnormals = kE4M3 ? 8 : 4;
  const I32x16 magnitude = codes & splat_words(0x7F);
  const __m512i fields = _mm512_maskz_slli_epi16(kAllWords, magnitude.v, kShift);
  __m512i value = _mm512_add_epi16(fields, splat_words(kRebias).v);
  const __mmask32 small = _mm512_cmplt_epi16_mask(magnitude.v, splat_words(kSubnormals).v);
  value = _mm512_mask_permutexvar_epi16(value, small, magnitude.v, subnormal_words.v);
  // No number: e4m3's largest code; e5m2 from its infinity on, whose fields stay.
  const __mmask32 special = _mm512_cmpgt_epi16_mask(magnitude.v, splat_words(kE4M3 ? 0x7E : 0x7B).v);
  const I32x16 no_number = {_mm512_maskz_set1_epi16(special, kE4M3 ? 0x7FC0 : 0x7F80)};
  const __m512i sign = _mm512_maskz_slli_epi16(kAllWords, (codes & splat_words(0x80)).v, 8);
  return I32x16{value} | no_number | I32x16{sign};
}

// The lines of pairs that words of kType hold: line(i, pairs) for k + 2 i and k + 2 i + 1. kZeros: `offset` is what a code of 4 bits
// gets (zero_offsets).
template <DType kType, bool kZeros>
class PairsOfWords {
 public:
  TILEWRIGHT_INLINE PairsOfWords() {
    if constexpr (dtype_bits(kType) == 4)
      table_ = I32x16::load(kZeros ? kWholeWords.words : kNibbleTables<kType>.words);
    if constexpr (is_ocp_f8(kType)) table_ = I32x16::load(kSubnormalWords<kType>.words);
  }
  template <class Line>
  TILEWRIGHT_INLINE void operator()(I32x16 words, const I32x16* offset, Line&& line) const {
    if constexpr (dtype_bits(kType) == 4) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        // Code 2 i in the low word's lowest bits, 2 i + 1 in the high one's; the next bit of an index is a neighbour's.
        constexpr int kUp = 12 - 8 * i.value;
        const I32x16 low = shift_right<8 * i.value>(words);
        I32x16 high = words;
        if constexpr (kUp > 0) high = shift_left<kUp>(words);
        if constexpr (kUp < 0) high = shift_right<-kUp>(words);
        I32x16 at = {_mm512_mask_blend_epi16(kUpperWords, low.v, high.v)};
        if constexpr (kZeros) {
          at = at & splat_words(15);
          if constexpr (kType == DType::kI4) at = at ^ splat_words(8);
          at.v = _mm512_add_epi16(at.v, offset->v);
        }
        line(i.value, look_up_words(at, table_));
      });
    } else if constexpr (is_ocp_f8(kType)) {
      unroll<2>([&](auto i) __attribute__((always_inline)) {
        // Bytes 2 i and 2 i + 1 of each word, zero-extended.
        const I32x16 first = shift_right<16 * i.value>(words) & I32x16::splat(0xFF);
        const I32x16 second = (i.value == 0 ? shift_left<8>(words) : shift_right<8>(words)) & I32x16::splat(0xFF0000);
        line(i.value, words_of_f8<kType>(first | second, table_));
      });
    } else {
      unroll<2>([&](auto i) __attribute__((always_inline)) {
        const F32x16 first = to_float(shift_right_signed<24>(shift_left<24 - 16 * i.value>(words)));
        const F32x16 second = to_float(shift_right_signed<24>(shift_left<16 - 16 * i.value>(words)));
        line(i.value, I32x16{_mm512_mask_blend_epi16(kUpperWords, shift_right<16>(as_int(first)).v, as_int(second).v)});
      });
    }
  }

 private:
  I32x16 table_ = {};
};

// What a code of 4-bit integers gets so that code plus offset finds code less zero point in kWholeWords. zeros: 16, as f32.
template <DType kType>
TILEWRIGHT_INLINE I32x16 zero_offsets(const float* zeros) {
  const I32x16 whole = {_mm512_maskz_cvtps_epi32(kAllLanes, F32x16::load(zeros).v)};
  const I32x16 offset = I32x16::splat(kType == DType::kI4 ? 8 : 16) - whole;
  return {_mm512_mask_blend_epi16(kUpperWords, offset.v, shift_left<16>(offset).v)};
}

template <DType kType>
void widen_pairs(const WidenOperand& o, int64 outer, int outers, int64 k, int64 count, const float* zeros, int64 group,
                 char* pairs) {
  constexpr bool kMayHaveZeros = kType == DType::kI4 || kType == DType::kU4;
  I32x16 offsets[kWidenLines / 16];
  const auto widen = [&](auto has_zeros) __attribute__((always_inline)) {
    const PairsOfWords<kType, has_zeros.value != 0> make;
    for_each_word<kType>(o, outer, outers, k, count, [&](I32x16 words, int64 i) __attribute__((always_inline)) {
      make(words, has_zeros.value != 0 ? offsets + i / group : nullptr,
           [&](int64 line, I32x16 pair) __attribute__((always_inline)) {
             if (i + 2 * line < count) pair.store(pairs + (i / 2 + line) * 64);
           });
    });
  };
  if constexpr (kMayHaveZeros) {
    if (zeros != nullptr) {
      for (int64 g = 0; g * group < count; ++g) offsets[g] = zero_offsets<kType>(zeros + g * 16);
      return widen(Index<1>{});
    }
  }
  widen(Index<0>{});
}

#endif

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
