// SPDX-License-Identifier: MIT
// Sums of groups of K, each of which takes its scales before it is added to what the groups before it gave:
//   c = fma(sum of the group, scale of B [* scale of A], c),
// in ascending order of K. The micro-kernels are gemm_micro_cpu.hpp's, over one group at a time.
#pragma once

#include "gemm/cpu/gemm_micro_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// The groups of one block of K behind a register tile.
template <int kPanels>
struct GroupOperands {
  const char* a;             // packed, all groups one after another
  PanelLines<kPanels> b;     // sums: [group][column] of column sums, then as many scales
  const float* scales_a;     // [group][each], or null
  int64 each;                // rows of a panel of A
  int64 k, group_k, unit_k;  // of the block, of a group, of an instruction's unit
  int64 groups() const { return blocking::ceil_div(k, group_k); }
  // Lines of units of group g, and where they begin.
  int64 steps(int64 g) const { return blocking::ceil_div(blocking::smaller(group_k, k - g * group_k), unit_k); }
  int64 begin(int64 g) const { return g * (group_k / unit_k); }
  const int* column_sums(int64 g, int p) const { return b.sums[p] + g * kPanelColumns; }
  const float* scales_b(int64 g, int p) const {
    return reinterpret_cast<const float*>(b.sums[p]) + (groups() + g) * kPanelColumns;
  }
};

TILEWRIGHT_INLINE F32x16 group_sum(F32x16 sum) { return sum; }
TILEWRIGHT_INLINE F32x16 group_sum(I32x16 sum) { return to_float(sum); }

// Row `row` of the tile: sum(p) is what the group gave.
template <bool kScalesA, int kPanels, class Sum>
TILEWRIGHT_INLINE void add_group_row(const MicroC& c, const F32x16 (&scale_b)[kPanels], const float* scales_a,
                                     int64 row, Sum&& sum) {
  F32x16 scale_a = F32x16::splat(0);
  if constexpr (kScalesA) scale_a = F32x16::splat(scales_a[row]);
  unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
    const F32x16 before = c.in == nullptr ? F32x16::splat(0) : F32x16::load(c.in + row * c.in_stride + p * 16);
    const F32x16 scale = kScalesA ? scale_b[p] * scale_a : scale_b[p];
    fma(sum(p), scale, before).store(c.out + row * c.out_stride + p * 16);
  });
}

// ---- Vector instructions ----------------------------------------------------------------------------------------------

template <DType kType, CpuMma kMma, int kRows, int kPanels>
TILEWRIGHT_INLINE void sum_groups_vector(const GroupOperands<kPanels>& o, MicroC c) {
  for (int64 g = 0; g < o.groups(); ++g) {
    PanelLines<kPanels> lines = {};
    lines.stride = o.b.stride;
    F32x16 scale_b[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      lines.base[p] = o.b.base[p] + o.begin(g) * o.b.stride;
      lines.sums[p] = needs_column_sums(kMma) ? o.column_sums(g, p) : nullptr;
    }
    const float* const scales_a = o.scales_a == nullptr ? nullptr : o.scales_a + g * o.each;
    const auto add = [&](const auto& acc) __attribute__((always_inline)) {
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) { scale_b[p] = F32x16::load(o.scales_b(g, p)); });
      unroll<kRows>([&](auto i) __attribute__((always_inline)) {
        const auto sum = [&](auto p) __attribute__((always_inline)) { return group_sum(acc[i][p]); };
        if (scales_a == nullptr) {
          add_group_row<false>(c, scale_b, nullptr, i, sum);
        } else {
          add_group_row<true>(c, scale_b, scales_a, i, sum);
        }
      });
      return true;
    };
    micro_vector<kType, kMma, kRows, kPanels, false, 0, 0>(o.a + o.begin(g) * kRows * 4, o.steps(g), lines, {}, {},
                                                           add);
    c.in = c.out, c.in_stride = c.out_stride;
  }
}

// ---- AMX --------------------------------------------------------------------------------------------------------------

// Adds rows of a group's sums, tiles [row / 16][panel][16][16], a few at a time: what the next group's products hide.
template <bool kInteger, int kPanels>
class GroupRows {
 public:
  TILEWRIGHT_INLINE void begin(const GroupOperands<kPanels>& o, int64 g, const float* sums, const MicroC& c,
                               int64 rows) {
    sums_ = sums, c_ = c, row_ = 0, rows_ = rows;
    scales_a_ = o.scales_a == nullptr ? nullptr : o.scales_a + g * o.each;
    for (int p = 0; p < kPanels; ++p) scales_b_[p] = o.scales_b(g, p);
  }
  TILEWRIGHT_INLINE void run(int64 rows) {
    if (row_ == rows_) return;
    if (scales_a_ == nullptr) {
      run_as<false>(rows);
    } else {
      run_as<true>(rows);
    }
  }
  TILEWRIGHT_INLINE void finish() { run(rows_ - row_); }

 private:
  template <bool kScalesA>
  TILEWRIGHT_INLINE void run_as(int64 rows) {
    F32x16 scale_b[kPanels];
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) { scale_b[p] = F32x16::load(scales_b_[p]); });
    const int64 end = blocking::smaller(rows_, row_ + rows);
    for (; row_ < end; ++row_) {
      const float* const from = sums_ + row_ / kTileRows * (kPanels - 1) * kTile + row_ * 16;
      add_group_row<kScalesA>(c_, scale_b, scales_a_, row_, [&](auto p) __attribute__((always_inline)) {
        if constexpr (kInteger) return to_float(I32x16::load(from + p * kTile));
        if constexpr (!kInteger) return F32x16::load(from + p * kTile);
      });
    }
  }
  static constexpr int kTile = kTileBytes / 4;
  const float* sums_ = nullptr;
  const float* scales_a_ = nullptr;
  const float* scales_b_[kPanels] = {};
  MicroC c_ = {};
  int64 row_ = 0, rows_ = 0;
};

// `sums`: two tiles. resident, next and side() as of micro_amx.
//
// NOTE(order): a tile's store waits for its last product and holds up what stands behind it. So each tile is stored right before
// the first product of the next group, which begins it anew, and the sums of a group are added while the one after the next is
// multiplied.
template <CpuMma kMma, int kTiles, int kPanels, class Side>
TILEWRIGHT_INLINE void sum_groups_amx(AmxTiles& tiles, const GroupOperands<kPanels>& o, MicroC c, float* sums,
                                      int64 resident, PanelPrefetch<kPanels>& next, Side&& side) {
  constexpr int64 kRows = kTiles * kTileRows;
  constexpr int kA = kTiles * kPanels, kB = kA + kTiles;
  static_assert(kB < 8);
  const auto buffer = [&](int64 g) { return sums + g % 2 * kA * (kTileBytes / 4); };
  const auto store = [&](auto i, auto p, int64 g) __attribute__((always_inline)) {
    constexpr int kAcc = i.value * kPanels + p.value;
    tiles.template store<kAcc>(buffer(g) + kAcc * (kTileBytes / 4), kTileRowBytes);
  };
  const auto step = [&](int64 t, auto begins, int64 g) __attribute__((always_inline)) {
    fetch(next, next.lines);
    unroll<kTiles>([&](auto i) __attribute__((always_inline)) {
      tiles.template stream<kA + i.value>(o.a + (t * kTiles + i) * kTileBytes, kTileRowBytes);
    });
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      if (t < resident) {
        tiles.template load<kB>(o.b.base[p] + t * kTileBytes, kTileRowBytes);
      } else {
        tiles.template stream<kB>(o.b.base[p] + t * kTileBytes, kTileRowBytes);
      }
      unroll<kTiles>([&](auto i) __attribute__((always_inline)) {
        constexpr int kAcc = i.value * kPanels + p.value;
        if constexpr (begins.value != 0) {
          if (g > 0) store(i, p, g - 1);
          tiles.template zero<kAcc>();
        }
        if constexpr (kMma == CpuMma::kAmxBf16) tiles.template dot_bf16<kAcc, kA + i.value, kB>();
        if constexpr (kMma == CpuMma::kAmxI8) tiles.template dot_i8<kAcc, kA + i.value, kB>();
      });
    });
  };
  GroupRows<is_integer(kMma), kPanels> before;
  const auto add = [&](int64 g) __attribute__((always_inline)) {
    before.finish();
    before.begin(o, g, buffer(g), c, kRows);
    c.in = c.out, c.in_stride = c.out_stride;
  };
  int64 t = 0;
  const int64 groups = o.groups();
  for (int64 g = 0; g < groups; ++g) {
    const int64 ktiles = blocking::ceil_div(o.steps(g), kTileRows), each = blocking::ceil_div(kRows, ktiles);
    if (g > 1) add(g - 2);
    for (int64 i = 0; i < ktiles; ++i, ++t) {
      if (i == 0) {
        step(t, Index<1>{}, g);
      } else {
        step(t, Index<0>{}, g);
      }
      before.run(each);
      side();
    }
    before.finish();
  }
  if (groups > 1) add(groups - 2);
  before.finish();
  unroll<kTiles>([&](auto i) __attribute__((always_inline)) {
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) { store(i, p, groups - 1); });
  });
  add(groups - 1);
  before.finish();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
