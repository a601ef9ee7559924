// SPDX-License-Identifier: MIT
// Scales and zero points of groups of the weights as f32: of a column, group by group, and of a panel's 16 columns side by
// side.
#pragma once

#include "gemm/cpu/gemv_dequant_cpu_blocking.hpp"
#include "tile/cpu/dequant.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Where the scales of groups stand, as a constant of a loop.
enum class DequantScales : unsigned char { kNone, kBlock, kGroups };  // none, one a block, one for each 32 values

// `count` scales, or zero points, of column n from group `from_group` on, as f32.
inline void load_groups(const GemmBlockScale& s, int64 batch, int64 n, int64 from_group, int64 count, float* out) {
  const int64 first = batch * s.stride_batch + n / s.outer * s.stride_outer + from_group * s.stride_k;
  const char* data = static_cast<const char*>(s.data);
  const auto each = [&](auto element) {
    for (int64 i = 0; i < count; ++i) out[i] = element(first + i * s.stride_k);
  };
  const auto typed = [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    const char* from = data + first * kBytes<kType>;
    int64 i = 0;
    if (s.stride_k == 1) {
      for (; i + kVec <= count; i += kVec) load_vec<kType>(from + i * kBytes<kType>).store(out + i);
      if (i < count) load_tail<kType>(from + i * kBytes<kType>, static_cast<int>(count - i)).store(out + i);
      return;
    }
    for (; i < count; ++i) out[i] = load_one<kType>(from + i * s.stride_k * kBytes<kType>);
  };
  const auto nibbles = [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    int64 i = 0;
    if (s.stride_k == 1 && first % 2 == 0) {
      for (; i + kVec <= count; i += kVec) widen_nibbles<kType>(data + (first + i) / 2).store(out + i);
    }
    for (; i < count; ++i) {
      const int64 at = first + i * s.stride_k;
      const auto code = static_cast<unsigned char>(static_cast<unsigned char>(data[at >> 1]) >> (at & 1) * 4 & 15);
      out[i] = widen_nibble(kType, code);
    }
  };
  switch (s.dtype) {
    case DType::kF32: return typed(TypeTag<DType::kF32>{});
    case DType::kF16: return typed(TypeTag<DType::kF16>{});
    case DType::kBf16: return typed(TypeTag<DType::kBf16>{});
    case DType::kI8: return typed(TypeTag<DType::kI8>{});
    case DType::kF8E4M3: return each([&](int64 i) { return load_one<DType::kF8E4M3>(data + i); });
    case DType::kI4: return nibbles(TypeTag<DType::kI4>{});
    case DType::kU4: return nibbles(TypeTag<DType::kU4>{});
    default: break;
  }
  int64 i = 0;  // e8m0
  if (s.stride_k == 1) {
    for (; i + kVec <= count; i += kVec) widen_e8m0(data + first + i).store(out + i);
  }
  for (; i < count; ++i) out[i] = widen(e8m0{static_cast<unsigned char>(data[first + i * s.stride_k])});
}

// The same for whole blocks, `every` of them a block: groups of 64 stand twice, what lies past K is 0.
inline void load_block_groups(const GemmBlockScale& s, int64 batch, int64 n, int64 k, int64 blocks, int every,
                              float* out) {
  const int64 count = blocking::ceil_div(k, s.k);
  load_groups(s, batch, n, 0, count, out);
  const int times = every * s.k / kDequantBlock;
  if (times == 2) {
    for (int64 i = count; i-- > 0;) out[2 * i] = out[2 * i + 1] = out[i];
  }
  for (int64 i = count * times; i < blocks * every; ++i) out[i] = 0;
}

// ---- Of a panel ------------------------------------------------------------------------------------------------------

// lanes[j] lane c: bytes 4 j to 4 j + 3 of the 16 that column c has at from + c * stride.
TILEWRIGHT_INLINE void gather_columns(const char* from, int64 stride, I32x16 (&lanes)[4]) {
#if TILEWRIGHT_AVX512
  // Quarter q of a vector is column 4 q + i, so that turning 4 x 4 words within quarters puts columns in order.
  __m512i rows[4];
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    const auto quarter = [&](int q) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + (4 * q + i.value) * stride));
    };
    __m512i row = _mm512_castsi128_si512(quarter(0));
    row = _mm512_maskz_inserti32x4(kAllLanes, row, quarter(1), 1);
    row = _mm512_maskz_inserti32x4(kAllLanes, row, quarter(2), 2);
    rows[i.value] = _mm512_maskz_inserti32x4(kAllLanes, row, quarter(3), 3);
  });
  const __m512i t0 = _mm512_maskz_unpacklo_epi32(kAllLanes, rows[0], rows[1]);
  const __m512i t1 = _mm512_maskz_unpackhi_epi32(kAllLanes, rows[0], rows[1]);
  const __m512i t2 = _mm512_maskz_unpacklo_epi32(kAllLanes, rows[2], rows[3]);
  const __m512i t3 = _mm512_maskz_unpackhi_epi32(kAllLanes, rows[2], rows[3]);
  lanes[0].v = _mm512_maskz_unpacklo_epi64(0xFF, t0, t2);
  lanes[1].v = _mm512_maskz_unpackhi_epi64(0xFF, t0, t2);
  lanes[2].v = _mm512_maskz_unpacklo_epi64(0xFF, t1, t3);
  lanes[3].v = _mm512_maskz_unpackhi_epi64(0xFF, t1, t3);
#else
  alignas(64) int words[4][16];
  for (int c = 0; c < 16; ++c) {
    for (int j = 0; j < 4; ++j) words[j][c] = read_as<int>(from + c * stride + 4 * j);
  }
  for (int j = 0; j < 4; ++j) lanes[j] = I32x16::load(words[j]);
#endif
}

// Group i of the 32 / bits that a word holds, as f32.
template <DType kType, int i>
TILEWRIGHT_INLINE F32x16 widen_in_word(I32x16 words) {
  constexpr int kBits = dtype_bits(kType);
  if constexpr (kType == DType::kF32) return as_float(words);
  if constexpr (kType == DType::kBf16) return as_float(i == 0 ? shift_left<16>(words) : words & I32x16::splat(-65536));
  if constexpr (kType == DType::kF16) {
    alignas(64) unsigned char halves[32];
    shift_right<16 * i>(words).narrow_16(halves);
    return F32x16::load_f16(halves);
  }
  if constexpr (kType == DType::kI8 || kType == DType::kI4) {
    return to_float(shift_right_signed<32 - kBits>(shift_left<32 - kBits*(i + 1)>(words)));
  }
  if constexpr (kType == DType::kU4) return to_float(shift_right<4 * i>(words) & I32x16::splat(15));
  if constexpr (kType == DType::kE8M0) {
    const I32x16 codes = shift_right<8 * i>(words) & I32x16::splat(0xFF);
    return power_of_code(codes);
  }
}

// Scales or zero points of the 16 columns from n on, `columns` of which there are, for `count` groups from `from_group` on:
// group g at out + 16 g, 0 where there is no column.
class PanelGroups {
 public:
  PanelGroups(const GemmBlockScale& s, int64 batch, int64 n, int columns)
      : s_(s), batch_(batch), n_(n), columns_(columns) {}

  void load(int64 from_group, int64 count, float* out) const {
    const bool all = columns_ == kPanelColumns && s_.outer == 1;
    const bool along_n = all && s_.stride_outer == 1, along_k = all && s_.stride_k == 1;
    switch (s_.dtype) {
      case DType::kF32: return load_as<DType::kF32>(along_n, along_k, from_group, count, out);
      case DType::kF16: return load_as<DType::kF16>(along_n, along_k, from_group, count, out);
      case DType::kBf16: return load_as<DType::kBf16>(along_n, along_k, from_group, count, out);
      case DType::kE8M0: return load_as<DType::kE8M0>(along_n, along_k, from_group, count, out);
      case DType::kI8: return load_as<DType::kI8>(along_n, along_k, from_group, count, out);
      case DType::kI4: return load_as<DType::kI4>(along_n, along_k, from_group, count, out);
      case DType::kU4: return load_as<DType::kU4>(along_n, along_k, from_group, count, out);
      default: return load_any(from_group, count, out);
    }
  }

 private:
  int64 first(int64 group) const {
    return batch_ * s_.stride_batch + n_ / s_.outer * s_.stride_outer + group * s_.stride_k;
  }

  template <DType kType>
  void load_as(bool along_n, bool along_k, int64 group, int64 count, float* out) const {
    constexpr int kBits = dtype_bits(kType);
    // 4-bit ones: every vector begins with a whole byte.
    const bool whole = kBits >= 8 || (first(group) % 2 == 0 && (along_k ? s_.stride_outer : s_.stride_k) % 2 == 0);
    const char* const data = static_cast<const char*>(s_.data);
    if (along_n && whole) {
      for (int64 g = 0; g < count; ++g) {
        const char* const from = data + first(group + g) * kBits / 8;
        if constexpr (kBits == 4) widen_nibbles<kType>(from).store(out + g * 16);
        if constexpr (kType == DType::kE8M0) widen_e8m0(from).store(out + g * 16);
        if constexpr (kBits >= 8 && kType != DType::kE8M0) load_vec<kType>(from).store(out + g * 16);
      }
      return;
    }
    if (!along_k || !whole) return load_any(group, count, out);
    constexpr int kEach = 128 / kBits;
    const int64 stride = s_.stride_outer * kBits / 8;
    for (int64 g = 0; g < count; g += kEach) {
      const char* const from = data + first(group + g) * kBits / 8;
      I32x16 lanes[4];
      alignas(64) char rest[16 * 16] = {};
      const int64 left = count - g;
      if (left >= kEach) {
        gather_columns(from, stride, lanes);
      } else {
        for (int c = 0; c < 16; ++c) {
          __builtin_memcpy(rest + 16 * c, from + c * stride, static_cast<unsigned long>((left * kBits + 7) / 8));
        }
        gather_columns(rest, 16, lanes);
      }
      unroll<4>([&](auto j) __attribute__((always_inline)) {
        unroll<32 / kBits>([&](auto i) __attribute__((always_inline)) {
          constexpr int kAt = j.value * (32 / kBits) + i.value;
          if (kAt < left) widen_in_word<kType, i.value>(lanes[j.value]).store(out + (g + kAt) * 16);
        });
      });
    }
  }

  // Of any strides, a column at a time; columns that share them are loaded once.
  void load_any(int64 group, int64 count, float* out) const {
    float column[kSome];
    for (int64 g = 0; g < count; g += kSome) {
      const int64 some = blocking::smaller(kSome, count - g);
      for (int c = 0; c < kPanelColumns; ++c) {
        if (c < columns_ && (c == 0 || (n_ + c) % s_.outer == 0))
          load_groups(s_, batch_, n_ + c, group + g, some, column);
        for (int64 i = 0; i < some; ++i) out[(g + i) * 16 + c] = c < columns_ ? column[i] : 0;
      }
    }
  }
  static constexpr int kSome = 64;

  const GemmBlockScale& s_;
  const int64 batch_, n_;
  const int columns_;
};

// The same for `count` blocks from `block` on, `every` of them a block: groups of 64 stand twice, what lies past K is 0.
inline void load_panel_blocks(const GemmBlockScale& s, int64 batch, int64 n, int columns, int64 k, int64 block,
                              int64 count, int every, float* out) {
  const int64 each = kDequantBlock / s.k, begin = block * each;
  const int64 have = blocking::smaller(count * each, blocking::ceil_div(k, s.k) - begin);
  PanelGroups(s, batch, n, columns).load(begin, have, out);
  const int64 times = every / each;
  if (times == 2) {
    for (int64 i = have; i-- > 0;) {
      const F32x16 x = F32x16::load(out + 16 * i);
      x.store(out + 32 * i);
      x.store(out + 32 * i + 16);
    }
  }
  for (int64 i = have * times; i < count * every; ++i) F32x16::splat(0).store(out + 16 * i);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
