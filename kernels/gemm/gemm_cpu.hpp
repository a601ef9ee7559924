// SPDX-License-Identifier: MIT
// gemm_cpu: cache-blocked GEMM. One call computes one unit's share of D; units need no barrier between them.
//
//   for each batch entry of the unit
//     for each block of columns                  B: packed weights in place, or packed here, once
//       for each block of rows                   A: packed here, once where the workspace holds it
//         for each block of k                    accumulators of the block stay in the workspace
//           for each tile_n columns              tile_n x block_k of B in the first level of cache
//             for each tile_m rows               micro-kernel
//         epilogue of the block
#pragma once

#include "gemm/gemm_cpu_blocking.hpp"
#include "gemm/gemm_epilogue_cpu.hpp"
#include "gemm/gemm_micro_cpu.hpp"
#include "gemm/gemm_pack_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Rows of a micro-panel that have a kernel of their own. A block of rows is cut into equal panels, so that 16 rows with
// tile_m = 14 are two panels of 8 and not 14 + 2.
template <GemmCpuConfig kConfig>
constexpr bool has_row_kernel(int64 rows) {
  if (is_amx(kConfig.mma)) return rows % 16 == 0;
  return rows == kConfig.tile_m || rows == 1 || rows % 2 == 0;
}
template <GemmCpuConfig kConfig>
constexpr int64 panel_rows(int64 rows) {
  const int64 panels = blocking::ceil_div(rows, kConfig.tile_m);
  int64 each = blocking::ceil_div(rows, panels);
  while (each < kConfig.tile_m && !has_row_kernel<kConfig>(each)) ++each;
  return each;
}

// body(Index<rows>{}) for the run-time number of rows.
template <GemmCpuConfig kConfig, int kRows = 1, class Body>
TILEWRIGHT_INLINE void with_rows(int64 rows, Body&& body) {
  if constexpr (kRows >= kConfig.tile_m) {
    body(Index<kConfig.tile_m>{});
  } else {
    if constexpr (has_row_kernel<kConfig>(kRows)) {
      if (rows == kRows) return body(Index<kRows>{});
    }
    with_rows<kConfig, kRows + 1>(rows, body);
  }
}

// Everything about one block's operands that the loops over tiles need.
struct GemmBlock {
  const char* a;             // packed A
  int64 a_panels, a_stride;  // micro-panels and bytes from one to the next
  const char* b;             // first panel
  int64 b_panels, b_stride;
  const int* sums;  // of the first panel, or null
  int64 k;          // k in the block
  float* acc;
  int64 acc_stride;
  bool first;  // the accumulators start at zero
  char* wide;  // widened B
};

// The panels of tile `column`; past the last panel the last one is read again, its results fall into padding.
template <int kPanels>
TILEWRIGHT_INLINE PanelLines<kPanels> panels_of_tile(const GemmBlock& block, int64 column, int64 line_bytes) {
  PanelLines<kPanels> lines;
  lines.stride = line_bytes;
  unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
    const int64 panel = blocking::smaller(column * kPanels + p, block.b_panels - 1);
    lines.base[p] = block.b + panel * block.b_stride;
    lines.sums[p] = block.sums == nullptr ? nullptr : block.sums + panel * kPanelColumns;
  });
  return lines;
}

template <GemmCpuConfig kConfig, int kRows>
__attribute__((noinline)) void multiply_block_vector(const GemmBlock& block) {
  constexpr DType kType = kConfig.dtype;
  constexpr CpuMma kMma = kConfig.mma;
  constexpr int kPanels = kConfig.tile_n / kPanelColumns;
  constexpr bool kWide = widens_b(kType, kMma);
  const int64 steps = blocking::ceil_div(block.k, unit_k(kMma));
  const int64 tiles = blocking::ceil_div(block.b_panels, kPanels);
  for (int64 column = 0; column < tiles; ++column) {
    PanelLines<kPanels> lines = panels_of_tile<kPanels>(block, column, packed_line_bytes(kType));
    if constexpr (kWide) {
      // Widen the tile's columns once for all rows: [line][panel].
      constexpr int kUnits = kLinesOfUnits<kType, kMma>;
      const int64 packed = blocking::ceil_div(block.k, packed_kp(kType));
      for (int64 l = 0; l < packed; ++l) {
        unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          I32x16 units[kUnits];
          expand_line<kType, kMma>(lines.base[p] + l * lines.stride, units);
          unroll<kUnits>([&](auto u) __attribute__((always_inline)) {
            units[u].store(block.wide + ((l * kUnits + u) * kPanels + p) * 64);
          });
        });
      }
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) { lines.base[p] = block.wide + p * 64; });
      lines.stride = kPanels * 64;
    }
    for (int64 row = 0; row < block.a_panels; ++row) {
      float* c = block.acc + row * kRows * block.acc_stride + column * kConfig.tile_n;
      micro_vector<kType, kMma, kRows, kPanels, false, kWide ? 0 : kConfig.prefetch>(
          block.a + row * block.a_stride, steps, lines, c, block.acc_stride, block.first);
    }
  }
}

template <GemmCpuConfig kConfig, int kRows>
__attribute__((noinline)) void multiply_block_amx(AmxTiles& amx, const GemmBlock& block) {
  constexpr int kPanels = kConfig.tile_n / kPanelColumns, kTiles = kRows / kTileRows;
  const int64 ktiles = blocking::ceil_div(block.k, kTileRows * unit_k(kConfig.mma));
  const int64 tiles = blocking::ceil_div(block.b_panels, kPanels);
  for (int64 column = 0; column < tiles; ++column) {
    const PanelLines<kPanels> lines = panels_of_tile<kPanels>(block, column, kTileRowBytes);
    for (int64 row = 0; row < block.a_panels; ++row) {
      float* c = block.acc + row * kRows * block.acc_stride + column * kConfig.tile_n;
      micro_amx<kConfig.mma, kTiles, kPanels, kConfig.prefetch>(amx, block.a + row * block.a_stride, ktiles, lines, c,
                                                                block.acc_stride, block.first);
    }
  }
}

// AMX kernels hold the tiles, the others nothing.
template <bool kAmx>
struct TilesOf {
  struct Type {};
};
template <>
struct TilesOf<true> {
  using Type = AmxTiles;
};

// The state of one unit's run.
template <GemmCpuConfig kConfig>
class GemmCpuUnit {
 public:
  TILEWRIGHT_INLINE GemmCpuUnit(const GemmArgs& args, unsigned unit, unsigned units)
      : args_(args), blocking_(gemm_cpu_blocking(kConfig, gemm_cpu_sizes(args), units)), unit_(unit) {
    workspace_ = static_cast<char*>(args.workspace) + unit * blocking_.unit_bytes;
  }

  TILEWRIGHT_INLINE void run() {
    const GemmCpuBlocking& s = blocking_;
    if (args_.m <= 0 || args_.n <= 0 || args_.batch <= 0) return;
    if (unit_ >= s.units_batch * s.units_m * s.units_n) return;
    // This unit's rectangle of D.
    const int64 in = unit_ % s.units_n, im = unit_ / s.units_n % s.units_m, ib = unit_ / (s.units_n * s.units_m);
    m_begin_ = blocking::share_begin(s.m_tiles, s.units_m, im) * kConfig.tile_m;
    m_end_ = blocking::smaller(args_.m, blocking::share_begin(s.m_tiles, s.units_m, im + 1) * kConfig.tile_m);
    n_begin_ = blocking::share_begin(s.n_tiles, s.units_n, in) * kConfig.tile_n;
    n_end_ = blocking::smaller(s.out_n, blocking::share_begin(s.n_tiles, s.units_n, in + 1) * kConfig.tile_n);
    const int64 batch_end = blocking::share_begin(args_.batch, s.units_batch, ib + 1);
    for (int64 b = blocking::share_begin(args_.batch, s.units_batch, ib); b < batch_end; ++b) run_batch(b);
  }

 private:
  static constexpr DType kType = kConfig.dtype;
  static constexpr CpuMma kMma = kConfig.mma;

  void run_batch(int64 batch) {
    a_ = static_cast<const char*>(args_.a);
    b_ = static_cast<const char*>(args_.b);
    if (batch != 0) a_ += batch * args_.stride_a_batch * kBytes<kType>;
    if (batch != 0) b_ += batch * args_.stride_b_batch * (args_.b_packed ? 1 : kBytes<kType>);
    for (int64 n = n_begin_; n < n_end_; n += blocking_.block_out) {
      const int64 columns = blocking::smaller(blocking_.block_out, n_end_ - n);
      segment_count_ = column_segments(args_.epilogue.gate, args_.n, n, n + columns, segments_);
      for (int64 m = m_begin_; m < m_end_; m += blocking_.block_m) {
        const int64 rows = blocking::smaller(blocking_.block_m, m_end_ - m);
        const bool first_rows = m == m_begin_, first_columns = n == n_begin_;
        for (int64 ik = 0; ik < blocking_.blocks_k; ++ik) {
          multiply(m, rows, ik, first_rows || !blocking_.b_resident, first_columns || !blocking_.a_resident);
        }
        float* up = acc() + blocking_.segment_columns + (segment_count_ == 2 ? segments_[1].skip : 0);
        gemm_epilogue<is_integer(kMma)>(args_.epilogue, args_.n, batch, m, rows, n, columns, acc(), up,
                                        blocking_.acc_stride);
      }
    }
  }

  // Adds block `ik` of k to the accumulators of rows [m, m + rows) and the current columns.
  void multiply(int64 m, int64 rows, int64 ik, bool pack_b, bool pack_a) {
    const int64 k_begin = ik * blocking_.block_k;
    const int64 k = blocking::larger(0, blocking::smaller(blocking_.block_k, args_.k - k_begin));
    const int64 each = panel_rows<kConfig>(rows);

    GemmBlock block;
    block.k = k;
    block.a_panels = blocking::ceil_div(rows, each);
    block.a_stride =
        each * 4 * (is_amx(kMma) ? 16 * blocking::ceil_div(k, 16 * unit_k(kMma)) : blocking::ceil_div(k, unit_k(kMma)));
    const int64 a_index = blocking_.a_resident ? (m - m_begin_) / blocking_.block_m * blocking_.blocks_k + ik : 0;
    char* a = workspace_ + blocking_.a_offset + a_index * blocking_.a_block_bytes;
    if (pack_a && k > 0) pack_rows(m, rows, each, k_begin, k, block, a);
    block.a = a;
    block.acc_stride = blocking_.acc_stride;
    block.first = ik == 0;
    block.wide = workspace_ + blocking_.wide_offset;

    for (int i = 0; i < segment_count_; ++i) {
      place_b(i, ik, k_begin, k, pack_b, block);
      block.acc = acc() + i * blocking_.segment_columns;
      if constexpr (is_amx(kMma)) {
        with_rows<kConfig>(each, [&](auto count) { multiply_block_amx<kConfig, count.value>(amx_, block); });
      } else {
        with_rows<kConfig>(each, [&](auto count) { multiply_block_vector<kConfig, count.value>(block); });
      }
    }
  }

  void pack_rows(int64 m, int64 rows, int64 each, int64 k_begin, int64 k, const GemmBlock& block, char* out) {
    for (int64 p = 0; p < block.a_panels; ++p) {
      const int64 row = p * each, valid = blocking::smaller(each, rows - row);
      const char* from = a_ + ((m + row) * args_.stride_a_m + k_begin * args_.stride_a_k) * kBytes<kType>;
      if constexpr (is_amx(kMma)) {
        pack_a_tiles<kType>(from, args_.stride_a_m, args_.stride_a_k, each, valid, k, out + p * block.a_stride);
      } else {
        pack_a_units<kType, kMma>(from, args_.stride_a_m, args_.stride_a_k, each, valid, k, out + p * block.a_stride);
      }
    }
  }

  // Points the block at the panels of segment `i`, packing them first when B is plain.
  void place_b(int i, int64 ik, int64 k_begin, int64 k, bool pack, GemmBlock& block) {
    const ColumnSegment& segment = segments_[i];
    block.b_panels = segment.panels;
    block.sums = nullptr;
    if (args_.b_packed) {
      const int64 panel_bytes = packed_panel_bytes(kType, args_.k);
      block.b_stride = panel_bytes;
      block.b = b_ + segment.panel * panel_bytes + k_begin / packed_kp(kType) * packed_line_bytes(kType);
      if (needs_column_sums(kMma) && ik == 0) {
        block.sums =
            reinterpret_cast<const int*>(b_ + packed_panels(args_.n) * panel_bytes) + segment.panel * kPanelColumns;
      }
      return;
    }
    // [panels of the block][lines], and behind them the column sums of this block of k.
    const int64 lines = blocking::larger(16, packed_lines(kType, k));
    const int64 half = blocking_.b_block_bytes / blocking_.segments / 64 * 64;
    char* out = workspace_ + blocking_.b_offset + (blocking_.b_resident ? ik : 0) * blocking_.b_block_bytes + i * half;
    block.b_stride = lines * packed_line_bytes(kType);
    block.b = out;
    int* sums = reinterpret_cast<int*>(out + segment.panels * block.b_stride);
    if (needs_column_sums(kMma)) block.sums = sums;
    if (!pack) return;
    pack_panels<kType>(b_, args_.stride_b_k, args_.stride_b_n, args_.n, k_begin, k, lines, segment.panel,
                       segment.panels, out, needs_column_sums(kMma) ? sums : nullptr);
  }

  float* acc() const { return reinterpret_cast<float*>(workspace_); }

  const GemmArgs& args_;
  const GemmCpuBlocking blocking_;
  const int64 unit_;
  char* workspace_;
  int64 m_begin_ = 0, m_end_ = 0, n_begin_ = 0, n_end_ = 0;
  const char* a_ = nullptr;  // of the current batch entry
  const char* b_ = nullptr;
  ColumnSegment segments_[2] = {};
  int segment_count_ = 0;
  [[no_unique_address]] typename TilesOf<is_amx(kMma)>::Type amx_;  // configured from here to the end of the run
};

// The kernel of the family: the entry of an instance calls it with its config.
template <GemmCpuConfig kConfig>
void gemm_cpu(const GemmArgs& args, unsigned unit, unsigned units) {
  static_assert(gemm_cpu_refusal(kConfig) == nullptr);
  GemmCpuUnit<kConfig>(args, unit, units).run();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
