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

// Lines of packed panels: 16 columns' words, but for f16, whose lines are of 16 halves.
template <DType kType>
inline void widen_packed(const char* panel, int64 k, int64 count, float* lines) {
  if constexpr (kType == DType::kF16) {
    for (int64 i = 0; i < count; ++i) F32x16::load_f16(panel + (k + i) * 32).store(lines + i * 16);
  } else {
    constexpr int kEach = kInWord<kType>;
    for (int64 i = 0; i < count; i += kEach) {
      widen_words<kType>(I32x16::load(panel + (k + i) / kEach * 64), lines + i * 16);
    }
  }
}

// lines[i][j] = element k + i of outer + j, for i < count <= kWidenLines and j < outers <= 16; 0 for further j. k is a multiple of
// kWidenLines. Lines past `count` hold anything, up to the next multiple of kWidenLines.
template <DType kType>
void widen_lines(const WidenOperand& o, int64 outer, int outers, int64 k, int64 count, float* lines) {
  if (o.packed) return widen_packed<kType>(o.data + outer / kPanelColumns * o.panel_bytes, k, count, lines);
  constexpr int kBits = dtype_bits(kType), kChunk = 16 * kInWord<kType>;
  const int64 first = o.offset + outer * o.stride_outer + k * o.stride_k;
  const auto whole = [](int64 elements) { return kBits >= 8 || elements % 2 == 0; };
  const auto at = [&](int64 element) { return o.data + element * kBits / 8; };
  if (o.stride_outer == 1 && o.stride_k != 1 && outers == 16 && whole(first) && whole(o.stride_k)) {
    for (int64 i = 0; i < count; ++i) widen_neighbours<kType>(at(first + i * o.stride_k)).store(lines + i * 16);
    return;
  }
  const bool rows = o.stride_k == 1 && whole(first) && whole(o.stride_outer);
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
    for (int w = 0; w < 16; ++w) widen_words<kType>(words[w], lines + (from + w * kInWord<kType>)*16);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
