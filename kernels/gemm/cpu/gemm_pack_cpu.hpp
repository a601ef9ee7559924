// SPDX-License-Identifier: MIT
// Packs B into panels of 16 columns (the layout of gemm_args.hpp) and A into micro-panels, from any strides. What is
// missing at the ends of K and N becomes zero. Fast where k or n is contiguous.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/cpu/gemm_pack_nibbles_cpu.hpp"
#include "tile/cpu/transpose.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// `count` elements, `stride` elements apart, one after the other.
template <int kSize>
inline void gather(const char* from, int64 stride, int64 count, void* to) {
  for (int64 i = 0; i < count; ++i) {
    __builtin_memcpy(static_cast<char*>(to) + i * kSize, from + i * stride * kSize, kSize);
  }
}

// ---- B ----------------------------------------------------------------------------------------------------------------

// Lines l .. l + 15 of a panel from 16 rows along k: `count` elements of each are there.
template <DType kType>
TILEWRIGHT_INLINE void lines_from_columns(const char* b, int64 stride_k, int64 stride_n, int columns, int64 count,
                                          I32x16 (&lines)[16]) {
  constexpr int kSize = kBytes<kType>, kGroup = kPanelLineGroup * packed_kp(kType);
  const auto units = [](const void* from) __attribute__((always_inline)) {
    return kType == DType::kF16 ? I32x16::widen_u16(from) : I32x16::load(from);
  };
  if (columns == 16 && stride_k == 1 && count >= kGroup) {
    unroll<16>([&](auto j) __attribute__((always_inline)) { lines[j] = units(b + j * stride_n * kSize); });
    return transpose_16x16(lines);
  }
  for (int j = 0; j < 16; ++j) {
    alignas(64) unsigned char buffer[64] = {};
    if (j < columns) gather<kSize>(b + j * stride_n * kSize, stride_k, blocking::smaller(count, kGroup), buffer);
    lines[j] = units(buffer);
  }
  transpose_16x16(lines);
}

// One line from packed_kp rows along n.
template <DType kType>
TILEWRIGHT_INLINE I32x16 line_from_rows(const char* b, int64 stride_k, int columns, int64 count) {
  constexpr int kSize = kBytes<kType>, kKp = packed_kp(kType);
  I32x16 line = I32x16::splat(0);
  unroll<kKp>([&](auto i) __attribute__((always_inline)) {
    if (i >= count) return;
    const char* row = b + i * stride_k * kSize;
    alignas(64) unsigned char buffer[64] = {};
    if (columns < 16) {
      __builtin_memcpy(buffer, row, static_cast<unsigned>(columns) * kSize);
      row = reinterpret_cast<const char*>(buffer);
    }
    if constexpr (kType == DType::kF32) line = I32x16::load(row);
    if constexpr (kSize == 2) line = line | shift_left<16 * i.value>(I32x16::widen_u16(row));
    if constexpr (kType == DType::kI8) {
      line = line | shift_left<8 * i.value>(I32x16::widen_i8(row) & I32x16::splat(255));
    }
  });
  return line;
}

template <DType kType>
TILEWRIGHT_INLINE void store_line(I32x16 line, char* out) {
  if constexpr (kType == DType::kF16) {
    line.narrow_16(out);
  } else {
    line.store(out);
  }
}

// The sum of the four i8 of each lane.
TILEWRIGHT_INLINE I32x16 sum_quads(I32x16 line) {
  return shift_right_signed<24>(shift_left<24>(line)) + shift_right_signed<24>(shift_left<16>(line)) +
         shift_right_signed<24>(shift_left<8>(line)) + shift_right_signed<24>(line);
}

// `lines` lines (a multiple of 16) of one panel; `b` is the element at its first column and first k. `columns` of 16 and
// `k_count` k are there. sums: null, or 16 column sums (i8).
template <DType kType>
void pack_panel(const char* b, int64 stride_k, int64 stride_n, int columns, int64 k_count, int64 lines, char* out,
                int* sums) {
  constexpr int kSize = kBytes<kType>, kKp = packed_kp(kType);
  constexpr int64 kLine = packed_line_bytes(kType);
  I32x16 sum = I32x16::splat(0);
  for (int64 l = 0; l < lines; l += kPanelLineGroup) {
    const int64 k = l * kKp;
    I32x16 group[16];
    if (k >= k_count || columns <= 0) {
      for (int i = 0; i < 16; ++i) group[i] = I32x16::splat(0);
    } else if (stride_n == 1 && stride_k != 1) {
      for (int i = 0; i < 16; ++i) {
        const int64 at = k + i * kKp;
        group[i] = I32x16::splat(0);
        if (at < k_count) {
          group[i] = line_from_rows<kType>(b + at * stride_k * kSize, stride_k, columns, k_count - at);
        }
      }
    } else {
      lines_from_columns<kType>(b + k * stride_k * kSize, stride_k, stride_n, columns, k_count - k, group);
    }
    for (int i = 0; i < 16; ++i) store_line<kType>(group[i], out + (l + i) * kLine);
    if constexpr (kType == DType::kI8) {
      for (int i = 0; i < 16; ++i) sum = sum + sum_quads(group[i]);
    }
  }
  if (sums != nullptr) sum.store(sums);
}

// Panels [panel_begin, panel_begin + panels) of B [K, n], k in [k_begin, k_begin + k_count), `lines` lines each.
// sums: null, or 16 a panel.
template <DType kType>
void pack_panels(const void* b, int64 stride_k, int64 stride_n, int64 n, int64 k_begin, int64 k_count, int64 lines,
                 int64 panel_begin, int64 panels, char* out, int* sums) {
  for (int64 p = 0; p < panels; ++p) {
    const int64 column = (panel_begin + p) * kPanelColumns;
    const int64 left = n - column;
    const int columns = left >= kPanelColumns ? kPanelColumns : left > 0 ? static_cast<int>(left) : 0;
    const char* from = static_cast<const char*>(b);
    if (columns > 0 && k_count > 0) from += (k_begin * stride_k + column * stride_n) * kBytes<kType>;
    pack_panel<kType>(from, stride_k, stride_n, columns, k_count, lines, out + p * lines * packed_line_bytes(kType),
                      sums == nullptr ? nullptr : sums + p * kPanelColumns);
  }
}

// A whole weight: unit `unit` of `units` packs its share of the panels of all batch entries.
template <DType kType>
void pack_weights(const GemmPackArgs& args, unsigned unit, unsigned units) {
  const int64 panels = packed_panels(args.n), lines = packed_lines(kType, args.k), all = panels * args.batch;
  const int64 end = blocking::share_begin(all, units, unit + 1ll);
  for (int64 i = blocking::share_begin(all, units, unit); i < end; ++i) {
    const int64 batch = i / panels, panel = i % panels;
    char* base = static_cast<char*>(args.packed) + batch * args.packed_batch_bytes;
    int* sums = nullptr;
    if constexpr (kType == DType::kI8) {
      sums = reinterpret_cast<int*>(base + panels * packed_panel_bytes(kType, args.k)) + panel * kPanelColumns;
    }
    const char* b = static_cast<const char*>(args.b);
    if (batch != 0) b += batch * args.stride_b_batch * kBytes<kType>;
    pack_panels<kType>(b, args.stride_b_k, args.stride_b_n, args.n, 0, args.k, lines, panel, 1,
                       base + panel * packed_panel_bytes(kType, args.k), sums);
  }
}

inline void gemm_pack_cpu(const GemmPackArgs& args, unsigned unit, unsigned units) {
  switch (args.dtype) {
    case DType::kF32: return pack_weights<DType::kF32>(args, unit, units);
    case DType::kF16: return pack_weights<DType::kF16>(args, unit, units);
    case DType::kBf16: return pack_weights<DType::kBf16>(args, unit, units);
    case DType::kI8: return pack_weights<DType::kI8>(args, unit, units);
    case DType::kI4:
    case DType::kU4:
    case DType::kF4E2M1: return pack_nibbles(args, unit, units);
    default: return;  // the host packs no other dtype
  }
}

// ---- A ----------------------------------------------------------------------------------------------------------------

// 16 units of a row whose elements lie side by side.
template <DType kType, CpuMma kMma>
TILEWRIGHT_INLINE I32x16 load_units(const void* source) {
  if constexpr (unit_k(kMma) == 1) return as_int(load_vec<kType>(source));
  if constexpr (kMma == CpuMma::kDotI8Avx2) return I32x16::widen_i8_pairs(source);
  // i8 to u8: A + 128.
  if constexpr (kMma == CpuMma::kDotI8) return I32x16::load(source) ^ I32x16::splat(static_cast<int>(0x80808080u));
  return I32x16::load(source);
}
// The same from a row of `count` elements, `stride_k` apart; what is missing is zero.
template <DType kType, CpuMma kMma>
TILEWRIGHT_INLINE I32x16 load_units(const char* row, int64 stride_k, int64 count) {
  constexpr int kElements = 16 * unit_k(kMma);
  if (stride_k == 1 && count >= kElements) return load_units<kType, kMma>(row);
  alignas(64) unsigned char buffer[64] = {};
  gather<kBytes<kType>>(row, stride_k, blocking::smaller(count, kElements), buffer);
  return load_units<kType, kMma>(buffer);
}

// A micro-panel [steps][rows] of 32-bit units, a step being unit_k consecutive k. `a` is the element at its first row
// and first k; `valid` rows and `k_count` k are there. Rows past them hold anything. Writes up to 60 bytes past the end.
template <DType kType, CpuMma kMma>
void pack_a_units(const char* a, int64 stride_m, int64 stride_k, int64 rows, int64 valid, int64 k_count, char* out) {
  constexpr int kSize = kBytes<kType>, kUnit = unit_k(kMma), kElements = 16 * kUnit;
  const int64 steps = blocking::ceil_div(k_count, kUnit);
  for (int64 s = 0; s < steps; s += 16) {
    const int64 lines = blocking::smaller(16, steps - s), k = s * kUnit;
    const bool whole = stride_k == 1 && k_count - k >= kElements;
    // A line is stored as whole vectors: the last rows first, so that what runs over is overwritten.
    for (int64 r = (rows - 1) / 16 * 16; r >= 0; r -= 16) {
      I32x16 group[16];
      const char* from = a + (r * stride_m + k * stride_k) * kSize;
      if (whole && r < valid) {
        // A branch a row would take as long as the transpose: a row that is not there is the first one again.
        unroll<16>([&](auto i) __attribute__((always_inline)) {
          group[i] = load_units<kType, kMma>(from + (r + i < valid ? i * stride_m * kSize : 0));
        });
      } else {
        for (int i = 0; i < 16; ++i) {
          group[i] = I32x16::splat(0);
          if (r + i < valid) group[i] = load_units<kType, kMma>(from + i * stride_m * kSize, stride_k, k_count - k);
        }
      }
      transpose_16x16(group);
      for (int64 i = 0; i < lines; ++i) group[i].store(out + ((s + i) * rows + r) * 4);
    }
  }
}

// Units that are 32 bits of A as they lie, but for the sign of i8.
template <DType kType, CpuMma kMma>
inline constexpr bool kUnitsOfMemory = !is_amx(kMma) && unit_k(kMma) * kBytes<kType> == 4;

// What pack_a_units makes, two units of a row at a call, so that a loop over k can do it beside its products: scalar loads
// and stores take nothing from the multiplier. Half of the rows come in the first half of the calls, since rows a power of two
// apart fall into one set of the first level of cache, which holds fewer lines than there are rows. `steps` is even, and so is kRows.
template <CpuMma kMma, int kRows>
class PackBeside {
 public:
  // From `a` to `out`; fetches a line of `next`, the rows after these, at each call (`next_bytes` apart).
  TILEWRIGHT_INLINE PackBeside(const char* a, int64 row_bytes, int64 steps, char* out, const char* next,
                               int64 next_bytes)
      : stride_(row_bytes), three_(3 * row_bytes), half_(steps / 2), out_(out), next_(next) {
    unroll<kBases>([&](auto i) __attribute__((always_inline)) { base_[i] = a + i * 5 * row_bytes; });
    lines_ = left_ = blocking::larger(1, steps * 4 / 64);
    jump_ = next_bytes - lines_ * 64;
  }
  TILEWRIGHT_INLINE void operator()(int64 call) {
    __builtin_prefetch(next_, 0, kLevel);
    next_ += 64;
    if (--left_ == 0) left_ = lines_, next_ += jump_;
    if (call == half_) {
      unroll<kBases>([&](auto i) __attribute__((always_inline)) { base_[i] += kHalf * stride_ - half_ * 8; });
      out_ -= half_ * kRows * 8 - kHalf * 4;
    }
    unroll<kHalf>([&](auto i) __attribute__((always_inline)) {
      // An address reaches one, two and four strides further.
      constexpr int kAt = i % 5;
      auto units = read_as<unsigned long long>(base_[i / 5] + (kAt == 3 ? three_ : kAt * stride_));
      if constexpr (kMma == CpuMma::kDotI8) units ^= 0x8080808080808080ull;
      const unsigned low = static_cast<unsigned>(units), high = static_cast<unsigned>(units >> 32);
      __builtin_memcpy(out_ + i * 4, &low, 4);
      __builtin_memcpy(out_ + (kRows + i) * 4, &high, 4);
    });
    unroll<kBases>([&](auto i) __attribute__((always_inline)) { base_[i] += 8; });
    out_ += kRows * 8;
  }

 private:
  // Fetches to the second level alone come late on zen5. Rows of f32 are read once: they pass it by.
  static constexpr int kLevel = unit_k(kMma) == 1 ? 0 : 3;
  static constexpr int kHalf = kRows / 2, kBases = blocking::ceil_div(kHalf, 5);
  const char* base_[kBases];  // of rows 0, 5, ... of a half
  const int64 stride_, three_, half_;
  char* out_;
  const char* next_;
  int64 lines_, left_, jump_;
};

// Tiles [ktiles][rows / 16][16][64 bytes] for AMX; rows is a multiple of 16.
template <DType kType>
void pack_a_tiles(const char* a, int64 stride_m, int64 stride_k, int64 rows, int64 valid, int64 k_count, char* out) {
  constexpr int kSize = kBytes<kType>, kElements = 64 / kSize, kStep = 4;
  const int64 tiles = blocking::ceil_div(k_count, kElements), whole = stride_k == 1 ? k_count / kElements : 0;
  int64 t = 0;
  // A few cache lines of each row at a time: neighbouring lines are fetched together.
  for (; t + kStep <= whole; t += kStep) {
    for (int64 r = 0; r < rows; ++r) {
      const char* from = a + r * stride_m * kSize + t * 64;
      char* to = out + (t * rows + r) * 64;
      unroll<kStep>([&](auto i) __attribute__((always_inline)) {
        (r < valid ? I32x16::load(from + i * 64) : I32x16::splat(0)).store(to + i * rows * 64);
      });
    }
  }
  for (; t < tiles; ++t) {
    for (int64 r = 0; r < rows; ++r) {
      char* to = out + (t * rows + r) * 64;
      I32x16::splat(0).store(to);
      if (r >= valid) continue;
      const int64 k = t * kElements;
      gather<kSize>(a + (r * stride_m + k * stride_k) * kSize, stride_k, blocking::smaller(kElements, k_count - k), to);
    }
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
