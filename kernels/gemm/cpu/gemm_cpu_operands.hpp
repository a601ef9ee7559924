// SPDX-License-Identifier: MIT
// The operands of gemm_cpu: where a block of A and a tile of columns of B are, packing and widening them where that is not
// done yet, and what is fetched from memory meanwhile.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/cpu/gemm_micro_cpu.hpp"
#include "gemm/cpu/gemm_pack_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Rows of a micro-panel that have a kernel of their own. A block of rows is cut into equal panels, so that 16 rows with
// tile_m = 14 are two panels of 8 and not 14 + 2; the last panel takes the smallest kernel that holds what is left, so
// that 64 rows are not 5 times 14. One row and six have none: few rows wait for B, and each kernel is compiled.
template <GemmCpuConfig kConfig>
constexpr bool has_row_kernel(int64 rows) {
  if (is_amx(kConfig.mma)) return rows % 16 == 0;
  return rows == kConfig.tile_m || (rows % 2 == 0 && rows != 6);
}
template <GemmCpuConfig kConfig>
constexpr int64 panel_rows(int64 rows) {
  const int64 panels = blocking::ceil_div(rows, kConfig.tile_m);
  int64 each = blocking::ceil_div(rows, panels);
  while (each < kConfig.tile_m && !has_row_kernel<kConfig>(each)) ++each;
  return each;
}
// Of the last panel. AMX packs all panels alike.
template <GemmCpuConfig kConfig>
constexpr int64 last_panel_rows(int64 rows, int64 each) {
  return is_amx(kConfig.mma) ? each : panel_rows<kConfig>(rows - (blocking::ceil_div(rows, each) - 1) * each);
}

// Operands that are multiplied as they lie in memory.
struct PlainOperands {
  static constexpr bool kWidens = false;   // packs A and B itself: they have other types than are multiplied
  static constexpr bool kByGroup = false;  // sums of groups of K take their scales
};

// One unit's rectangle of D and its operands.
template <GemmCpuConfig kConfig, class Source>
class GemmCpuOperands {
 protected:
  static constexpr DType kType = kConfig.dtype;
  static constexpr CpuMma kMma = kConfig.mma;
  static constexpr int kPanels = kConfig.tile_n / kPanelColumns;
  // Panels of A may be packed by the micro-kernel of the panel before.
  static constexpr bool kPacksBeside = !Source::kWidens && kUnitsOfMemory<kType, kMma> && kConfig.tile_m % 2 == 0;
  static constexpr int64 kLine = packed_line_bytes(kType);

  TILEWRIGHT_INLINE GemmCpuOperands(const GemmArgs& args, const Source& source, const GemmCpuSizes& sizes,
                                    unsigned unit, unsigned units)
      : args_(args), source_(source), blocking_(gemm_cpu_blocking(kConfig, sizes, units)) {
    workspace_ = static_cast<char*>(args.workspace) + unit * blocking_.unit_bytes;
  }

  // A block of D, one block of k of it, and where its operands are.
  struct Block {
    int64 m, rows, n, columns;  // of D
    int64 im, in;               // indices
    bool first_m, first_n, last_n;
    int64 ik, k_begin, k;
    bool last;  // block of k
    const char* a;
    int64 a_panels, a_stride;  // micro-panels of A and bytes from one to the next
    int64 each, last_rows;     // rows of a panel, of the last one
    int64 beside;              // panels before this one but the first are packed by the micro-kernels of tile 0
    int64 tiles;               // of columns
    const char* next_rows;     // of A, to be packed after this block, or null
    int64 next_count;
  };

  // Points the block at its packed A, packing it where that is not done yet, but for what micro-kernels pack.
  void place_a(Block& block) {
    const int64 steps =
        is_amx(kMma) ? 16 * blocking::ceil_div(block.k, 16 * unit_k(kMma)) : blocking::ceil_div(block.k, unit_k(kMma));
    block.a_stride = block.each * 4 * steps;
    int64 index = 0;
    if (blocking_.packed_a != PackedA::kBlock) index = block.ik;
    if (blocking_.packed_a == PackedA::kAll) index += block.im * blocking_.blocks_k;
    char* out = workspace_ + blocking_.a_offset + index * blocking_.a_block_bytes;
    block.a = out, block.beside = 0;
    if (block.k <= 0 || (blocking_.packed_a != PackedA::kBlock && !block.first_n)) return;
    if (packs_beside(block.k) && block.each == kConfig.tile_m) block.beside = block.rows / block.each;
    for (int64 p = 0; p < block.a_panels; ++p, out += block.a_stride) {
      if (p > 0 && p < block.beside) continue;
      const int64 row = p * block.each, rows = p == block.a_panels - 1 ? block.last_rows : block.each;
      const int64 valid = blocking::smaller(rows, block.rows - row);
      if constexpr (Source::kWidens) {
        source_.pack_a(batch_, block.m + row, rows, valid, block.k_begin, block.k, out);
        if constexpr (Source::kByGroup) {
          float* scales = const_cast<float*>(scales_a(block, p));
          source_.scales_a(batch_, block.m + row, block.each, valid, block.k_begin, block.k, scales);
        }
        continue;
      }
      const char* from = rows_of_a(block, row);
      if constexpr (is_amx(kMma)) {
        pack_a_tiles<kType>(from, args_.stride_a_m, args_.stride_a_k, rows, valid, block.k, out);
      } else {
        pack_a_units<kType, kMma>(from, args_.stride_a_m, args_.stride_a_k, rows, valid, block.k, out);
      }
    }
  }

  // Groups of K of a block, and the scales of a panel's rows: [group][row].
  TILEWRIGHT_INLINE int64 groups(const Block& block) const { return blocking::ceil_div(block.k, blocking_.group_k); }
  TILEWRIGHT_INLINE const float* scales_a(const Block& block, int64 panel) const {
    return reinterpret_cast<const float*>(block.a + blocking_.a_scales_bytes) + panel * groups(block) * block.each;
  }

  // Whether micro-kernels of tile_m rows pack panels of A of so many k.
  TILEWRIGHT_INLINE bool packs_beside(int64 k) const {
    return kPacksBeside && args_.stride_a_k == 1 && k % (2 * unit_k(kMma)) == 0;
  }
  // A from row `row` and the first k of a block on.
  TILEWRIGHT_INLINE const char* rows_of_a(const Block& block, int64 row) const {
    return a_ + ((block.m + row) * args_.stride_a_m + block.k_begin * args_.stride_a_k) * kBytes<kType>;
  }

  // Panels of a segment in a tile.
  TILEWRIGHT_INLINE int64 tile_panels() const { return blocking_.both_halves ? kPanels / 2 : kPanels; }

  // Points at the lines of B of one tile of columns, packing and widening them where that is needed.
  void place_b(const Block& block, int s, int64 tile, PanelLines<kPanels>& lines) {
    place_panels(block, s, tile, lines, 0);
    if (blocking_.both_halves) place_panels(block, 1, tile, lines, kPanels / 2);
    lines.stride = kLine;
    if constexpr (widens_b(kType, kMma)) widen_tile(block, s, lines);
  }
  // Those of one segment, from panel `at` of the tile on.
  __attribute__((noinline)) void place_panels(const Block& block, int s, int64 tile, PanelLines<kPanels>& lines,
                                              int at) {
    const ColumnSegment& segment = segments_[s];
    const int64 first = blocking::smaller(tile * tile_panels(), segment.panels - 1);
    const int64 count = blocking::smaller(tile_panels(), segment.panels - first);
    const char* base;
    const char* sums = nullptr;  // column sums of the first panel
    int64 stride, sums_stride = kPanelColumns * 4;
    if (blocking_.packed_b == PackedB::kInPlace) {
      stride = packed_panel_bytes(kType, args_.k);
      base = b_ + (segment.panel + first) * stride + block.k_begin / packed_kp(kType) * kLine;
      if (block.ik == 0) sums = b_ + packed_panels(args_.n) * stride + (segment.panel + first) * sums_stride;
    } else {
      stride = sums_stride = tile_stride(block.k);
      base = pack_tile(block, s, first, count);
      sums = base + tile_lines(block.k) * kLine;
    }
    // Past the last panel the last one is read again; its results fall into padding.
    for (int p = 0; p < tile_panels(); ++p) {
      const int64 panel = blocking::smaller(p, count - 1);
      lines.base[at + p] = base + panel * stride;
      lines.sums[at + p] = sums == nullptr || !(needs_column_sums(kMma) || Source::kByGroup)
                               ? nullptr
                               : reinterpret_cast<const int*>(sums + panel * sums_stride);
    }
  }

  // Packs the panel after panel `row` of the block, and fetches the rows of the one after that.
  TILEWRIGHT_INLINE PackBeside<kMma, kConfig.tile_m> pack_beside(const Block& block, int64 row) const {
    constexpr int64 kRows = kConfig.tile_m;
    const bool more = row + 2 < block.beside;
    return {rows_of_a(block, (row + 1) * kRows),
            args_.stride_a_m * kBytes<kType>,
            block.k / unit_k(kMma),
            workspace_ + (block.a - workspace_) + (row + 1) * block.a_stride,
            more ? rows_of_a(block, (row + 2) * kRows) : block.a,
            more ? args_.stride_a_m * kBytes<kType> : 0};
  }

  // What comes after this block of A on the way, which is fetched meanwhile: the rows of A that will be packed next.
  void find_next_rows(Block& block) const {
    block.next_rows = nullptr, block.next_count = 0;
    if (Source::kWidens || is_amx(kMma) || args_.stride_a_k != 1 || blocking_.packed_a == PackedA::kBlock) return;
    if (block.first_n && !block.last) {
      block.next_rows = a_ + (block.m * args_.stride_a_m + block.k_begin + block.k) * kBytes<kType>;
      block.next_count = block.rows;
    } else if (block.last && block.last_n && block.m + block.rows < m_end_) {
      block.next_rows = a_ + (block.m + block.rows) * args_.stride_a_m * kBytes<kType>;
      block.next_count = blocking::smaller(blocking_.block_m, m_end_ - block.m - block.rows);
    }
    // Micro-kernels fetch the rows of the panels that they pack, from the third on.
    if (packs_beside(block.k)) block.next_count = blocking::smaller(block.next_count, 2 * kConfig.tile_m);
  }

  // Lines of A that come while panel `row` is multiplied by tile `tile` of columns: during the first one the next panel, which
  // the second level may have lost, if it is not packed then; during the last ones two of the rows to be packed next. A step reads four bytes of a row.
  TILEWRIGHT_INLINE void choose_streams(const Block& block, int64 tile, int64 row) {
    const FetchStream nothing = {block.a, 0};
    stream_a_[0] = stream_a_[1] = nothing;
    if (tile == 0) {
      if (row + 1 < block.a_panels && row + 1 >= block.beside)
        stream_a_[0] = {block.a + (row + 1) * block.a_stride, block.each * 4};
      return;
    }
    const int64 begin = blocking::larger(1, block.tiles - blocking::ceil_div(block.next_count, 2 * block.a_panels));
    if (tile < begin) return;
    const int64 first = 2 * ((tile - begin) * block.a_panels + row);
    for (int64 i = 0; i < 2; ++i) {
      if (first + i >= block.next_count) return;
      stream_a_[i] = {block.next_rows + (first + i) * args_.stride_a_m * kBytes<kType>, 4};
    }
  }

  // What one micro-kernel of `steps` steps fetches: its share of the next tile of B, and the lines of A. Where there is nothing
  // to fetch, a line that is there. Moves `next` on.
  TILEWRIGHT_INLINE FetchStreams<kPanels + 2> streams(PanelPrefetch<kPanels>& next, int64 steps, const char* a) const {
    FetchStreams<kPanels + 2> streams = {};
    const bool more = next.lines > 0 && next.limit-- > 0;
    const int64 step = more ? blocking::ceil_div(next.lines * 64, steps) : 0;
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      streams.stream[p] = {more ? next.base[p] : a, step};
      next.base[p] += next.stride;
    });
    streams.stream[kPanels] = stream_a_[0], streams.stream[kPanels + 1] = stream_a_[1];
    return streams;
  }

  // What the next tile of columns is made of, shared among the panels of rows of this one; at the end of a block that is the
  // first tile in the next block of k or of columns.
  PanelPrefetch<kPanels> next_tile(const Block& block, int s, int64 tile) const {
    PanelPrefetch<kPanels> next = {};
    const bool found = find_next_panels(block, s, tile, next, 0) &&
                       (!blocking_.both_halves || find_next_panels(block, 1, tile, next, kPanels / 2));
    if (!found) next = {};
    return next;
  }
  // That of one segment, from panel `at` of the tile on; false: there is nothing.
  __attribute__((noinline)) bool find_next_panels(const Block& block, int s, int64 tile, PanelPrefetch<kPanels>& next,
                                                  int at) const {
    const ColumnSegment& segment = segments_[s];
    const int64 each = tile_panels();
    int64 first = (tile + 1) * each, ik = block.ik, in = block.in, panel = segment.panel + first;
    if (first >= segment.panels) {
      first = 0, panel = segment.panel + (block.last ? segment.panels : 0);
      in += block.last ? 1 : 0, ik = block.last ? 0 : ik + 1;
    }
    const int64 panels = packed_panels(args_.n), k_begin = ik * blocking_.block_k;
    const int64 k = blocking::smaller(blocking_.block_k, args_.k - k_begin);
    const bool in_place = blocking_.packed_b == PackedB::kInPlace;
    if (panel >= panels || k <= 0 || (!in_place && is_amx(kMma))) return false;
    if (!in_place && packs_tile(block)) {
      // Columns as they are: for each panel of rows, one for each of the tile's panels.
      if (Source::kWidens || args_.stride_b_k != 1) return false;
      const int64 column = args_.stride_b_n * kBytes<kType>, from = panel * kPanelColumns;
      for (int64 p = 0; p < each; ++p) {
        next.base[at + p] = b_ + blocking::smaller(from + p, args_.n - 1) * column + k_begin * kBytes<kType>;
      }
      next.stride = each * column, next.lines = k * kBytes<kType> / 64;
      next.limit = blocking::smaller(16, (args_.n - from) / each);
      return true;
    }
    const int64 stride = in_place ? packed_panel_bytes(kType, args_.k) : tile_stride(k);
    const char* base =
        in_place ? b_ + panel * stride + k_begin / packed_kp(kType) * kLine : tile_at(in, ik, s, first, k);
    for (int64 p = 0; p < each; ++p) next.base[at + p] = base + blocking::smaller(p, panels - 1 - panel) * stride;
    // AMX asks after each tile of k, the others once a micro-kernel.
    const int64 lines = is_amx(kMma) ? kTileRows : blocking::ceil_div(k, packed_kp(kType)) * kLine / 64;
    next.lines = blocking::ceil_div(lines, block.a_panels);
    next.stride = next.lines * 64, next.limit = block.a_panels;
    return true;
  }

  // Plain B in the workspace: a panel's lines for k of K, and behind them its column sums (and scales, of groups).
  static int64 tile_lines(int64 k) { return blocking::larger(16, packed_lines(kType, k)); }
  int64 tile_stride(int64 k) const { return tile_lines(k) * kLine + blocking_.panel_tail_bytes; }
  // Panel `first` of a segment in block `in` of columns and `ik` of k.
  char* tile_at(int64 in, int64 ik, int s, int64 first, int64 k) const {
    const bool tile_only = blocking_.packed_b == PackedB::kTile;
    const int64 index = tile_only ? 0 : ik + (blocking_.packed_b == PackedB::kAll ? in * blocking_.blocks_k : 0);
    const int64 panel = tile_only ? s * tile_panels() : s * blocking_.segment_panels + first;
    return workspace_ + blocking_.b_offset + index * blocking_.b_block_bytes + panel * tile_stride(k);
  }
  bool packs_tile(const Block& block) const { return blocking_.packed_b == PackedB::kTile || block.first_m; }

  // `count` panels of plain B from `first` on, packed now or by an earlier block of rows.
  const char* pack_tile(const Block& block, int s, int64 first, int64 count) {
    const int64 lines = tile_lines(block.k), stride = tile_stride(block.k);
    char* out = tile_at(block.in, block.ik, s, first, block.k);
    if (!packs_tile(block)) return out;
    for (int64 p = 0; p < count; ++p) {
      if constexpr (Source::kWidens) {
        char* const panel = out + p * stride;
        source_.pack_b(batch_, segments_[s].panel + first + p, block.k_begin, block.k, lines, panel,
                       panel + lines * kLine);
        continue;
      }
      int* sums = needs_column_sums(kMma) ? reinterpret_cast<int*>(out + p * stride + lines * kLine) : nullptr;
      pack_panels<kType>(b_, args_.stride_b_k, args_.stride_b_n, args_.n, block.k_begin, block.k, lines,
                         segments_[s].panel + first + p, 1, out + p * stride, sums);
    }
    return out;
  }

  // Replaces packed lines by lines of units: [line][panel].
  void widen_tile(const Block& block, int s, PanelLines<kPanels>& lines) {
    constexpr int kUnits = kLinesOfUnits<kType, kMma>;
    char* wide = workspace_ + blocking_.wide_offset + s * (blocking_.block_k / unit_k(kMma)) * kConfig.tile_n * 4;
    const int64 packed = blocking::ceil_div(block.k, packed_kp(kType));
    for (int64 l = 0; l < packed; ++l) {
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        I32x16 units[kUnits];
        expand_line<kType, kMma>(lines.base[p] + l * kLine, units);
        unroll<kUnits>([&](auto u) __attribute__((always_inline)) {
          units[u].store(wide + ((l * kUnits + u) * kPanels + p) * 64);
        });
      });
    }
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) { lines.base[p] = wide + p * 64; });
    lines.stride = kPanels * 64;
  }

  const GemmArgs& args_;
  const Source source_;
  const GemmCpuBlocking blocking_;
  char* workspace_;
  int64 m_begin_ = 0, m_end_ = 0, n_begin_ = 0, n_end_ = 0, batch_ = 0;
  const char* a_ = nullptr;  // of the current batch entry
  const char* b_ = nullptr;
  ColumnSegment segments_[2] = {};
  int segment_count_ = 0;
  FetchStream stream_a_[2] = {};
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
