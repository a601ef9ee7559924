// SPDX-License-Identifier: MIT
// gemm_dequant_cpu: gemm_cpu of operands that are not multiplied as they lie. Any types that widen exactly, any strides, packed
// weights or plain ones, scales and zero points of groups: packing brings A and B to f32, or to bf16 where that holds their values.
// Scales of groups multiply the values while they are packed, each product rounded once, as the reference says; where bf16 does not hold
// those products, and for i8, the sums of groups stand apart and take them (gemm_group_sums_cpu.hpp).
#pragma once

#include "gemm/cpu/gemm_cpu.hpp"
#include "gemm/cpu/gemm_dequant_cpu_blocking.hpp"
#include "gemm/cpu/gemm_widen_cpu.hpp"
#include "gemm/cpu/gemv_dequant_scales_cpu.hpp"
#include "gemm/gemm_packed_layout.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <GemmDequantCpuConfig kConfig>
class DequantOperands {
 public:
  static constexpr bool kWidens = true;
  static constexpr bool kByGroup = kConfig.by_group;

  // Batch entry 0 of what is multiplied is entry `batch` of s, its row 0 row `row`.
  explicit DequantOperands(const GemmScaledArgs& s, int64 batch = 0, int64 row = 0)
      : scaled_(s),
        first_batch_(batch),
        first_row_(row),
        group_k_(dequant_group(kType, s)),
        a_apart_(scale_stands_apart(kType, dequant_a(s))),
        b_apart_(scale_stands_apart(kType, dequant_b(s))) {}

  // Whether sums of groups take scales of A.
  bool scales_a_apart() const { return a_apart_; }

  // Rows m to m + rows of A, `valid` of which there are, as a micro-panel (vector instructions: up to 16 rows) or as tiles.
  __attribute__((noinline)) void pack_a(int64 batch, int64 m, int64 rows, int64 valid, int64 k, int64 count,
                                        char* out) const {
    const GemmArgs& args = scaled_.gemm;
    batch += first_batch_, m += first_row_;
    const bool plain = a_apart_ || scaled_.scale.a.data == nullptr;
    if (plain && pack_plain_a(batch, m, rows, valid, k, count, out)) return;
    const WidenOperand a = {
        static_cast<const char*>(args.a), batch * args.stride_a_batch, args.stride_a_m, args.stride_a_k, false, 0};
    for (int64 r = 0; r < rows; r += 16) {
      const Piece piece = {
          a, args.a_dtype, batch, m + r, clamp_16(valid - r), a_apart_ ? nullptr : &scaled_.scale.a, nullptr};
      for (int64 at = 0; at < count; at += kWidenLines) {
        alignas(64) char units[kWidenLines * 64];
        const int64 some = blocking::smaller(kWidenLines, count - at);
        make_units(piece, k + at, some, units);
        if constexpr (is_amx(kMma)) {
          store_tiles(units, some, rows, r, out + at / (16 * kUnit) * rows * kTileRowBytes);
        } else {
          // Every line is stored whole: what runs over is the next one's.
          for (int64 i = 0; i * kUnit < some; ++i) {
            I32x16::load(units + i * 64).store(out + (at / kUnit + i) * rows * 4);
          }
        }
      }
    }
  }

  // Panel `panel` of B: `lines` lines, zero from `count` of K on, and what stands behind them.
  __attribute__((noinline)) void pack_b(int64 batch, int64 panel, int64 k, int64 count, int64 lines, char* out,
                                        char* tail) const {
    const GemmArgs& args = scaled_.gemm;
    const int64 n = panel * kPanelColumns;
    batch += first_batch_;
    const int columns = clamp_16(args.n - n);
    if constexpr (kByGroup)
      load_scales(scaled_.scale.b, b_apart_, batch, n, columns, k, count, 16, tail_scales(tail, count));
    if constexpr (kType == DType::kI8) return pack_i8(batch, panel, k, count, lines, out, reinterpret_cast<int*>(tail));
    const PackedLayout layout = packed_layout(args.b_dtype, args.n, args.k);
    WidenOperand b = {static_cast<const char*>(args.b),
                      batch * args.stride_b_batch,
                      args.stride_b_n,
                      args.stride_b_k,
                      args.b_packed,
                      layout.panel_bytes};
    if (args.b_packed) b.data += b.offset, b.offset = 0;
    const Piece piece = {b, args.b_dtype, batch, n, columns, b_apart_ ? nullptr : &scaled_.scale.b, &scaled_.zero_b};
    for (int64 at = 0; at < count; at += kWidenLines) {
      make_units(piece, k + at, blocking::smaller(kWidenLines, count - at), out + at / kUnit * 64);
    }
    for (int64 line = blocking::ceil_div(count, kUnit); line < lines; ++line) I32x16::splat(0).store(out + line * 64);
  }

  // Scales of A's rows for the groups of a block of K: [group][each].
  void scales_a(int64 batch, int64 m, int64 each, int64 valid, int64 k, int64 count, float* out) const {
    batch += first_batch_, m += first_row_;
    for (int64 r = 0; a_apart_ && r < each; r += 16) {
      load_scales(scaled_.scale.a, true, batch, m + r, clamp_16(valid - r), k, count, each, out + r);
    }
  }

 private:
  static constexpr DType kType = kConfig.dtype;
  static constexpr CpuMma kMma = kConfig.mma;
  static constexpr int kUnit = unit_k(kMma);

  // 16 rows or columns of an operand.
  struct Piece {
    WidenOperand from;
    DType dtype;
    int64 batch, outer;
    int outers;
    const GemmBlockScale* scale;  // that the values take, or null
    const GemmBlockScale* zero;
  };

  static int clamp_16(int64 count) { return static_cast<int>(blocking::larger(0, blocking::smaller(16, count))); }

  // Rows of A that need no more than other kernels do; false: they need more.
  bool pack_plain_a(int64 batch, int64 m, int64 rows, int64 valid, int64 k, int64 count, char* out) const {
    const GemmArgs& args = scaled_.gemm;
    const auto pack = [&](auto type) {
      constexpr DType kA = decltype(type)::value;
      const char* from = static_cast<const char*>(args.a) +
                         (batch * args.stride_a_batch + m * args.stride_a_m + k * args.stride_a_k) * kBytes<kA>;
      if constexpr (is_amx(kMma)) {
        pack_a_tiles<kA>(from, args.stride_a_m, args.stride_a_k, rows, valid, count, out);
      } else {
        pack_a_units<kA, kMma>(from, args.stride_a_m, args.stride_a_k, rows, valid, count, out);
      }
      return true;
    };
    if (args.a_dtype == kType) return pack(TypeTag<kType>{});
    if constexpr (kType == DType::kF32) {
      if (args.a_dtype == DType::kBf16) return pack(TypeTag<DType::kBf16>{});
      if (args.a_dtype == DType::kF16) return pack(TypeTag<DType::kF16>{});
    }
    return false;
  }

  void pack_i8(int64 batch, int64 panel, int64 k, int64 count, int64 lines, char* out, int* sums) const {
    const GemmArgs& args = scaled_.gemm;
    const char* b = static_cast<const char*>(args.b) + batch * args.stride_b_batch;
    constexpr int64 kLine = packed_line_bytes(kType);
    if (args.b_packed) {
      const int64 have = blocking::smaller(lines, packed_lines(kType, args.k) - k / packed_kp(kType));
      __builtin_memcpy(out, b + panel * packed_panel_bytes(kType, args.k) + k / packed_kp(kType) * kLine,
                       static_cast<unsigned long>(have * kLine));
      for (int64 line = have; line < lines; ++line) I32x16::splat(0).store(out + line * kLine);
    } else {
      pack_panels<kType>(b, args.stride_b_k, args.stride_b_n, args.n, k, count, lines, panel, 1, out, nullptr);
    }
    if constexpr (needs_column_sums(kMma)) {
      for (int64 g = 0; g * group_k_ < count; ++g) {
        I32x16 sum = I32x16::splat(0);
        const int64 each = group_k_ / packed_kp(kType), end = blocking::smaller(lines, (g + 1) * each);
        for (int64 line = g * each; line < end; ++line) sum = sum + sum_quads(I32x16::load(out + line * kLine));
        sum.store(sums + g * kPanelColumns);
      }
    }
  }

  // The scales stand behind the column sums of as many groups.
  float* tail_scales(char* tail, int64 count) const {
    return reinterpret_cast<float*>(tail) + blocking::ceil_div(count, group_k_) * kPanelColumns;
  }

  // 16 scales for each group that is summed apart, `stride` floats from one to the next; 1 where sums take none.
  void load_scales(const GemmBlockScale& s, bool apart, int64 batch, int64 outer, int outers, int64 k, int64 count,
                   int64 stride, float* out) const {
    const int64 groups = blocking::ceil_div(count, group_k_);
    if (!apart) {
      for (int64 g = 0; g < groups; ++g) F32x16::splat(1).store(out + g * stride);
      return;
    }
    // Blocks of K begin with a scale. In ascending order: rows that are fewer than 16 run over into the next group's.
    alignas(64) float values[kScaleLines * 16];
    const int64 times = s.k / group_k_;
    for (int64 g = 0; g < groups; ++g) {
      const int64 at = g / times % kScaleLines;
      if (at == 0 && g % times == 0) {
        const int64 left = blocking::ceil_div(groups - g, times);
        PanelGroups(s, batch, outer, outers).load(k / s.k + g / times, blocking::smaller(kScaleLines, left), values);
      }
      F32x16::load(values + at * 16).store(out + g * stride);
    }
  }
  static constexpr int64 kScaleLines = 16;

  // `count` lines from k on, a multiple of kWidenLines, less their zero points, times their scales.
  void widen(const Piece& piece, int64 k, int64 count, float* lines) const {
    with_widened_type(piece.dtype, [&](auto type) {
      widen_lines<decltype(type)::value>(piece.from, piece.outer, piece.outers, k, count, lines);
    });
    if (piece.scale == nullptr && !(piece.zero != nullptr && piece.zero->data != nullptr)) return;
    const bool zeros = piece.zero != nullptr && piece.zero->data != nullptr;
    const bool scales = piece.scale != nullptr && piece.scale->data != nullptr;
    alignas(64) float zero[kMostGroups * 16], scale[kMostGroups * 16];
    if (zeros) apply<false>(*piece.zero, piece, k, count, zero, lines);
    if (scales) apply<true>(*piece.scale, piece, k, count, scale, lines);
  }
  static constexpr int kMostGroups = kWidenLines / 16;

  template <bool kMultiply>
  static void apply(const GemmBlockScale& s, const Piece& piece, int64 k, int64 count, float* values, float* lines) {
    const int64 groups = blocking::ceil_div(count, s.k);
    PanelGroups(s, piece.batch, piece.outer, piece.outers).load(k / s.k, groups, values);
    for (int64 g = 0; g < groups; ++g) {
      const F32x16 value = F32x16::load(values + g * 16);
      const int64 end = blocking::smaller(count, (g + 1) * s.k);
      for (int64 i = g * s.k; i < end; ++i) {
        const F32x16 x = F32x16::load(lines + i * 16);
        (kMultiply ? x * value : x - value).store(lines + i * 16);
      }
    }
  }

  // The lines of units, 16 rows or columns side by side, of `count` elements from k on, a multiple of kWidenLines.
  void make_units(const Piece& piece, int64 k, int64 count, char* out) const {
    if constexpr (kType == DType::kBf16) {
      if (make_pairs(piece, k, count, out)) return;
    }
    alignas(64) float lines[kWidenLines * 16];
    widen(piece, k, count, lines);
    for (int64 i = 0; i < count; i += kUnit) {
      const I32x16 first = I32x16::load(lines + i * 16);
      if constexpr (kUnit == 1) {
        first.store(out + i * 64);
      } else {
        // bf16 holds the values: nothing is rounded. What is missing at the end of K is zero.
        const I32x16 second = i + 1 < count ? I32x16::load(lines + i * 16 + 16) : I32x16::splat(0);
        const I32x16 pair = shift_right<16>(first) | (second & I32x16::splat(static_cast<int>(0xFFFF0000u)));
        pair.store(out + i / kUnit * 64);
      }
    }
  }

  // The same without f32 between, where values take no scales and no other zero points than of their own type; false: they do.
  static bool make_pairs(const Piece& piece, int64 k, int64 count, char* out) {
    bool made = false;
    const bool zeros = piece.zero != nullptr && piece.zero->data != nullptr;
    if (piece.scale != nullptr && piece.scale->data != nullptr) return false;
    with_widened_type(piece.dtype, [&](auto type) {
      constexpr DType kFrom = decltype(type)::value;
      if constexpr (kHasPairs<kFrom>) {
        if (has_neighbours<kFrom>(piece.from, piece.outer, piece.outers, k)) return;
        if (zeros && (dtype_bits(kFrom) != 4 || piece.zero->dtype != kFrom)) return;
        alignas(64) float zero[kMostGroups * 16];
        const int64 group = zeros ? piece.zero->k : kWidenLines;
        if (zeros) {
          PanelGroups(*piece.zero, piece.batch, piece.outer, piece.outers)
              .load(k / group, blocking::ceil_div(count, group), zero);
        }
        widen_pairs<kFrom>(piece.from, piece.outer, piece.outers, k, count, zeros ? zero : nullptr, group, out);
        made = true;
      }
    });
    return made;
  }

  // 16 rows as tiles of AMX: [tile of k][rows][64 bytes], from row `row` on.
  static void store_tiles(const char* units, int64 count, int64 rows, int64 row, char* out) {
    for (int64 at = 0; at < count; at += 16 * kUnit, out += rows * kTileRowBytes) {
      I32x16 lines[16];
      for (int64 i = 0; i < 16; ++i) {
        lines[i] = at + i * kUnit < count ? I32x16::load(units + (at / kUnit + i) * 64) : I32x16::splat(0);
      }
      transpose_16x16(lines);
      for (int64 i = 0; i < 16; ++i) lines[i].store(out + (row + i) * kTileRowBytes);
    }
  }

  template <class Body>
  static TILEWRIGHT_INLINE void with_widened_type(DType dtype, Body&& body) {
    switch (dtype) {
      case DType::kF32: return body(TypeTag<DType::kF32>{});
      case DType::kF16: return body(TypeTag<DType::kF16>{});
      case DType::kBf16: return body(TypeTag<DType::kBf16>{});
      case DType::kI8: return body(TypeTag<DType::kI8>{});
      case DType::kI4: return body(TypeTag<DType::kI4>{});
      case DType::kU4: return body(TypeTag<DType::kU4>{});
      case DType::kF4E2M1: return body(TypeTag<DType::kF4E2M1>{});
      case DType::kF8E4M3: return body(TypeTag<DType::kF8E4M3>{});
      case DType::kF8E5M2: return body(TypeTag<DType::kF8E5M2>{});
      case DType::kF8E4M3Fnuz: return body(TypeTag<DType::kF8E4M3Fnuz>{});
      case DType::kF8E5M2Fnuz: return body(TypeTag<DType::kF8E5M2Fnuz>{});
      default: return;  // the host lets no other dtype through
    }
  }

  const GemmScaledArgs& scaled_;
  const int64 first_batch_, first_row_;
  const int64 group_k_;
  const bool a_apart_, b_apart_;
};

// The kernel of the family: the entry of an instance calls it with its config.
template <GemmDequantCpuConfig kConfig>
void gemm_dequant_cpu(const GemmScaledArgs& args, unsigned unit, unsigned units) {
  static_assert(gemm_dequant_cpu_refusal(kConfig) == nullptr);
  using Unit = GemmCpuUnit<kConfig.product(), DequantOperands<kConfig>>;
  Unit(args.gemm, DequantOperands<kConfig>(args), gemm_dequant_cpu_sizes(kConfig, args), unit, units).run();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
