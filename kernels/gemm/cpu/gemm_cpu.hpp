// SPDX-License-Identifier: MIT
// gemm_cpu: cache-blocked GEMM. One call computes one unit's share of D; units need no barrier between them.
//
//   for each batch entry of the unit
//     for each block of rows, for each block of columns (or the reverse: gemm_cpu_blocking.hpp)
//       for each block of k                      packs the block of A where that is not done yet
//         for each tile_n columns of the block   packs or widens these columns of B
//           for each tile_m rows                 micro-kernel
//                                                after the last block of k: epilogue of the tile
//
// Accumulators pass from one block of k to the next through the workspace.
#pragma once

#include "gemm/cpu/gemm_cpu_operands.hpp"
#include "gemm/cpu/gemm_epilogue_registers_cpu.hpp"
#include "gemm/cpu/gemm_epilogue_rows_cpu.hpp"
#include "gemm/cpu/gemm_group_sums_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// body(Index<rows>{}) for the run-time number of rows, fewer than tile_m.
template <GemmCpuConfig kConfig, int kRows = 1, class Body>
TILEWRIGHT_INLINE void with_fewer_rows(int64 rows, Body&& body) {
  if constexpr (kRows < kConfig.tile_m) {
    if constexpr (has_row_kernel<kConfig>(kRows)) {
      if (rows == kRows) return body(Index<kRows>{});
    }
    with_fewer_rows<kConfig, kRows + 1>(rows, body);
  }
}

// AMX kernels hold the tiles and an epilogue that runs beside them, the others nothing.
template <bool kAmx, bool kInteger>
struct AmxState {};
template <bool kInteger>
struct AmxState<true, kInteger> {
  EpilogueByRows<kInteger> by_rows;
  int64 side_rows = 0, side_every = 1,
        side_wait = 1;  // side_rows rows every side_every steps; the next ones in side_wait steps
  AmxTiles tiles;       // configured from here to the end of the run
};

// The state of one unit's run.
template <GemmCpuConfig kConfig, class Source = PlainOperands>
class GemmCpuUnit : GemmCpuOperands<kConfig, Source> {
 public:
  TILEWRIGHT_INLINE GemmCpuUnit(const GemmArgs& args, unsigned unit, unsigned units)
      : GemmCpuUnit(args, Source(), gemm_cpu_sizes(args), unit, units) {}
  TILEWRIGHT_INLINE GemmCpuUnit(const GemmArgs& args, const Source& source, const GemmCpuSizes& sizes, unsigned unit,
                                unsigned units)
      : Operands(args, source, sizes, unit, units), unit_(unit) {}

  void run() {
    const GemmCpuBlocking& s = blocking_;
    if (args_.m <= 0 || s.out_n <= 0 || args_.batch <= 0) return;
    if (unit_ >= s.units_batch * s.units_m * s.units_n) return;
    // This unit's rectangle of D.
    const int64 in = unit_ % s.units_n, im = unit_ / s.units_n % s.units_m, ib = unit_ / (s.units_n * s.units_m);
    m_begin_ = blocking::share_begin(s.m_grains, s.units_m, im) * s.row_grain;
    m_end_ = blocking::smaller(args_.m, blocking::share_begin(s.m_grains, s.units_m, im + 1) * s.row_grain);
    n_begin_ = blocking::share_begin(s.n_tiles, s.units_n, in) * s.out_tile;
    n_end_ = blocking::smaller(s.out_n, blocking::share_begin(s.n_tiles, s.units_n, in + 1) * s.out_tile);
    const int64 batch_end = blocking::share_begin(args_.batch, s.units_batch, ib + 1);
    stream_d_ = streams_d(args_.epilogue, m_end_ - m_begin_, n_end_ - n_begin_, s.out_tile);
    for (batch_ = blocking::share_begin(args_.batch, s.units_batch, ib); batch_ < batch_end; ++batch_) run_batch();
    if (stream_d_) stream_fence();
  }

 private:
  using Operands = GemmCpuOperands<kConfig, Source>;
  using Block = typename Operands::Block;
  using Operands::a_, Operands::b_, Operands::m_begin_, Operands::m_end_, Operands::n_begin_, Operands::n_end_;
  using Operands::args_, Operands::blocking_, Operands::workspace_, Operands::batch_, Operands::segments_;
  // Scales make sums of integers f32.
  static constexpr bool kInteger = is_integer(Operands::kMma) && !Source::kByGroup;
  using Operands::kMma, Operands::kPacksBeside, Operands::kPanels, Operands::kType, Operands::segment_count_;

  // A micro-kernel of fewer rows than tile_m.
  using MicroOfRows = void (*)(GemmCpuUnit&, const Block&, int64, int64, const PanelLines<kPanels>&, const MicroC&,
                               PanelPrefetch<kPanels>&);

  // A tile of D whose sums wait for the epilogue.
  struct Pending {
    int64 m, rows, n, columns;
    float* sums;
    bool by_rows;
  };

  void run_batch() {
    if constexpr (!Source::kWidens) {
      a_ = static_cast<const char*>(args_.a);
      b_ = static_cast<const char*>(args_.b);
      if (batch_ != 0) a_ += batch_ * args_.stride_a_batch * kBytes<kType>;
      if (batch_ != 0) b_ += batch_ * args_.stride_b_batch * (args_.b_packed ? 1 : kBytes<kType>);
    }
    if constexpr (!Source::kByGroup) {
      from_registers_ = from_registers<kType, kMma>(args_.epilogue, {batch_, m_begin_, m_end_, n_begin_, n_end_});
    }
    const int64 blocks_m = blocking::ceil_div(m_end_ - m_begin_, blocking_.block_m);
    const int64 blocks_n = blocking::ceil_div(n_end_ - n_begin_, blocking_.block_out);
    for (int64 i = 0; i < blocks_m * blocks_n; ++i) {
      if (blocking_.rows_outer) {
        run_block(i / blocks_n, i % blocks_n);
      } else {
        run_block(i % blocks_m, i / blocks_m);
      }
    }
  }

  void run_block(int64 im, int64 in) {
    Block block;
    block.im = im, block.in = in;
    block.first_m = im == 0, block.first_n = in == 0;
    block.m = m_begin_ + im * blocking_.block_m;
    block.n = n_begin_ + in * blocking_.block_out;
    block.rows = blocking::smaller(blocking_.block_m, m_end_ - block.m);
    block.columns = blocking::smaller(blocking_.block_out, n_end_ - block.n);
    block.last_n = block.n + block.columns >= n_end_;
    segment_count_ = column_segments(args_.epilogue.gate, args_.n, block.n, block.n + block.columns, segments_);
    const int64 panels = blocking::larger(segments_[0].panels, segments_[segment_count_ - 1].panels);
    block.tiles = blocking::ceil_div(panels, this->tile_panels());
    block.each = panel_rows<kConfig>(block.rows);
    block.last_rows = last_panel_rows<kConfig>(block.rows, block.each);
    block.a_panels = blocking::ceil_div(block.rows, block.each);
    const auto use = [](int64 rows, MicroOfRows& micro) {
      with_fewer_rows<kConfig>(rows, [&](auto count) { micro = micro_of_rows<count.value>; });
    };
    use(block.each, fewer_rows_);
    use(block.last_rows, last_rows_);
    for (block.ik = 0; block.ik < blocking_.blocks_k; ++block.ik) {
      block.k_begin = block.ik * blocking_.block_k;
      block.k = blocking::larger(0, blocking::smaller(blocking_.block_k, args_.k - block.k_begin));
      block.last = block.ik == blocking_.blocks_k - 1;
      this->place_a(block);
      this->find_next_rows(block);
      if (block.each == kConfig.tile_m) {
        multiply<kConfig.tile_m>(block);
      } else {
        multiply<0>(block);
      }
    }
    if (blocking_.aligned) return;
    gemm_epilogue<kInteger>(args_.epilogue, args_.n, batch_, block.m, block.rows, block.n, block.columns, acc(0),
                            acc(1) + segments_[1].skip, blocking_.acc_stride);
  }

  // Adds a block of k to the accumulators of a block; after the last one, runs the epilogue tile by tile. Twice: around
  // the micro-kernel of tile_m rows, and (kRows = 0) around a call of one for fewer rows, which would cost as much to
  // compile each as all of them do so.
  template <int kRows>
  __attribute__((noinline)) void multiply(const Block& block) {
    const int64 each = kRows > 0 ? kRows : block.each;
    const bool finish = block.last && blocking_.aligned, first = block.ik == 0;
    const int segments = static_cast<int>(blocking_.tile_segments);
    for (int64 tile = 0; tile < block.tiles; ++tile) {
      PanelLines<kPanels> lines[2];
      PanelPrefetch<kPanels> next[2];
      for (int s = 0; s < segments; ++s) {
        this->place_b(block, s, tile, lines[s]);
        next[s] = this->next_tile(block, s, tile);
      }
      const int64 column = tile * blocking_.out_tile;
      for (int64 row = 0; row < block.a_panels; ++row) {
        if constexpr (!is_amx(kMma)) this->choose_streams(block, tile, row);
        float* sums = scratch() + buffer_ * kConfig.tile_m * blocking_.scratch_stride;
        for (int s = 0; s < segments; ++s) {
          float* acc = this->acc(s) + row * each * blocking_.acc_stride + tile * kConfig.tile_n;
          MicroC c = {first ? nullptr : acc, blocking_.acc_stride, acc, blocking_.acc_stride};
          if (finish) c.out = sums + s * kConfig.tile_n, c.out_stride = blocking_.scratch_stride;
          const int64 d_column = finish && s == 0 ? block.n + column : -1;
          if (row == block.a_panels - 1 && block.last_rows < each) {
            last_rows_(*this, block, row, d_column, lines[s], c, next[s]);
          } else if constexpr (kRows > 0) {
            const bool packs_next = tile == 0 && s == 0 && row + 1 < block.beside;
            if constexpr (kPacksBeside) {
              if (packs_next) micro_of_rows<kRows, true>(*this, block, row, d_column, lines[s], c, next[s]);
            }
            if (!packs_next) micro<kRows>(block, row, d_column, lines[s], c, next[s]);
          } else {
            fewer_rows_(*this, block, row, d_column, lines[s], c, next[s]);
          }
        }
        if (!finish) continue;
        if (stored_) {
          stored_ = false;
          continue;
        }
        finish_tile();
        pending_ = {block.m + row * each,
                    blocking::smaller(each, block.rows - row * each),
                    block.n + column,
                    blocking::smaller(blocking_.out_tile, block.columns - column),
                    sums,
                    false};
        if constexpr (is_amx(kMma)) {
          buffer_ ^= 1;  // the epilogue runs inside the next micro-kernel
          begin_side(block);
        } else {
          finish_tile();
        }
      }
    }
    if (block.last) finish_tile();
  }

  // The micro-kernel of panel `row` of the block, and what is fetched or packed (panel row + 1 of A) meanwhile. d_column: of
  // D, where the epilogue follows; -1 where it does not.
  template <int kRows, bool kPacksNext = false>
  TILEWRIGHT_INLINE void micro(const Block& block, int64 row, int64 d_column, const PanelLines<kPanels>& lines,
                               const MicroC& c, PanelPrefetch<kPanels>& next) {
    if (!is_amx(kMma) && c.in != nullptr) fetch_sums<kRows>(c.in + kRows * c.in_stride);
    if (!is_amx(kMma) && d_column >= 0) fetch_d<kRows>(block.m + row * block.each, d_column);
    const int64 m = block.m + row * kRows;
    const bool to_d = from_registers_ != FromRegisters::kNo && d_column >= 0 && m + kRows <= block.m + block.rows &&
                      d_column + blocking_.out_tile <= block.n + block.columns;
    run_micro<kRows, kPacksNext>(block, row, lines, c, next, m, to_d ? d_column : -1);
  }
  template <int kRows, bool kPacksNext = false>
  __attribute__((noinline)) static void micro_of_rows(GemmCpuUnit& unit, const Block& block, int64 row, int64 d_column,
                                                      const PanelLines<kPanels>& lines, const MicroC& c,
                                                      PanelPrefetch<kPanels>& next) {
    unit.template micro<kRows, kPacksNext>(block, row, d_column, lines, c, next);
  }

  // The accumulators that the next micro-kernel begins with.
  template <int kRows>
  TILEWRIGHT_INLINE void fetch_sums(const float* acc) const {
    for (int row = 0; row < kRows; ++row, acc += blocking_.acc_stride) {
      for (int p = 0; p < kPanels; ++p) __builtin_prefetch(acc + p * 16, 1, 3);
    }
  }

  // The lines of D that this tile's epilogue writes: they come while the micro-kernel multiplies. To the second level of
  // cache only: rows a power of two apart fall into one set of the first.
  template <int kRows>
  TILEWRIGHT_INLINE void fetch_d(int64 m, int64 n) const {
    const GemmEpilogueArgs& e = args_.epilogue;
    if (e.stride_d_n != 1 || stream_d_) return;
    const int64 size = e.d_dtype == DType::kF32 ? 4 : 2, rows = blocking::smaller(kRows, args_.m - m);
    const char* d = static_cast<const char*>(e.d) + (batch_ * e.stride_d_batch + m * e.stride_d_m + n) * size;
    for (int64 row = 0; row < rows; ++row, d += e.stride_d_m * size) {
      for (int64 byte = 0; byte < blocking_.out_tile * size; byte += 64) __builtin_prefetch(d + byte, 0, 2);
    }
  }

  // The epilogue of the next `rows` rows of the tile that waits for it.
  __attribute__((noinline)) void finish_rows(int64 rows) {
    Pending& p = pending_;
    rows = blocking::smaller(rows, p.rows);
    if constexpr (is_amx(kMma)) {
      if (p.by_rows) {
        p.rows -= rows;
        return amx_.by_rows.run(args_.epilogue, rows);
      }
    }
    gemm_epilogue<kInteger>(args_.epilogue, args_.n, batch_, p.m, rows, p.n, p.columns, p.sums, up_sums(p),
                            blocking_.scratch_stride, stream_d_);
    p.m += rows;
    p.rows -= rows;
    p.sums += rows * blocking_.scratch_stride;
  }
  // Spreads the epilogue of the tile that waits over the steps of the next one.
  TILEWRIGHT_INLINE void begin_side(const Block& block) {
    Pending& p = pending_;
    p.by_rows = p.columns == kConfig.tile_n && epilogue_goes_by_rows(args_.epilogue);
    if (p.by_rows) {
      amx_.by_rows.begin(args_.epilogue, args_.n, batch_, p.m, p.rows, p.n, p.columns, p.sums, up_sums(p),
                         blocking_.scratch_stride, stream_d_);
    }
    const int64 steps = blocking::larger(1, blocking::ceil_div(block.k, kTileRows * unit_k(kMma)) * segment_count_);
    const int64 calls = blocking::smaller(p.by_rows ? p.rows : kSideCalls, steps);
    amx_.side_rows = blocking::ceil_div(p.rows, calls);
    amx_.side_every = amx_.side_wait = steps / calls;
  }
  // The sums of the up half of a tile.
  float* up_sums(const Pending& p) const { return p.sums + this->tile_panels() * kPanelColumns; }
  TILEWRIGHT_INLINE void finish_tile() {
    if (pending_.rows > 0) finish_rows(pending_.rows);
  }

  template <int kRows, bool kPacksNext>
  TILEWRIGHT_INLINE void run_micro(const Block& block, int64 row, const PanelLines<kPanels>& lines, const MicroC& c,
                                   PanelPrefetch<kPanels>& next, int64 m, int64 n) {
    const char* a = block.a + row * block.a_stride;
    const auto side = [&]() __attribute__((always_inline)) {
      if constexpr (is_amx(kMma)) {
        if (--amx_.side_wait > 0) return;
        amx_.side_wait = amx_.side_every;
        if (pending_.rows > 0) finish_rows(amx_.side_rows);
      }
    };
    const int64 resident = block.a_panels > 1 ? kResidentBytesB / (kPanels * kTileBytes) : 0;
    if constexpr (Source::kByGroup) {
      const float* scales_a = this->source_.scales_a_apart() ? this->scales_a(block, row) : nullptr;
      const GroupOperands<kPanels> groups = {a, lines, scales_a, block.each, block.k, blocking_.group_k, unit_k(kMma)};
      if constexpr (is_amx(kMma)) {
        float* sums = reinterpret_cast<float*>(workspace_ + blocking_.group_sums_offset);
        sum_groups_amx<kMma, kRows / kTileRows>(amx_.tiles, groups, c, sums, resident, next, side);
      } else {
        sum_groups_vector<kType, kMma, kRows>(groups, c);
      }
    } else if constexpr (is_amx(kMma)) {
      const int64 ktiles = blocking::ceil_div(block.k, kTileRows * unit_k(kMma));
      micro_amx<kMma, kRows / kTileRows, kPanels>(amx_.tiles, a, ktiles, lines, c, idle(), resident, next, side);
    } else {
      const int64 steps = blocking::ceil_div(block.k, unit_k(kMma));
      constexpr int kPrefetch = widens_b(kType, kMma) ? 0 : kConfig.prefetch;
      const auto finish = [&](const auto& acc) __attribute__((always_inline)) {
        return this->template finish_registers<kRows>(acc, m, n);
      };
      if constexpr (kPacksNext) {
        // No streams, for which there are no registers, and no finish, which would be compiled once more.
        micro_vector<kType, kMma, kRows, kPanels, false, kPrefetch, 0>(a, steps, lines, c, {}, StoreSums{},
                                                                       this->pack_beside(block, row));
      } else {
        micro_vector<kType, kMma, kRows, kPanels, false, kPrefetch, kPanels + 2>(a, steps, lines, c,
                                                                                 this->streams(next, steps, a), finish);
      }
    }
  }

  // The sums of rows m, ... and columns n, ... of D, straight from the registers; false with n < 0. For tiles of tile_m rows
  // alone, which large products consist of: each of these is compiled twice.
  template <int kRows, class Acc>
  TILEWRIGHT_INLINE bool finish_registers(const Acc& acc, int64 m, int64 n) {
    if constexpr (kStoresRegisters<kMma> && kRows == kConfig.tile_m) {
      if (n < 0) return false;
      const EpilogueTile tile = {batch_, m, kRows, 0, stream_d_};
      if (kMma == CpuMma::kFmaAvx512 || from_registers_ == FromRegisters::kLeast) {
        store_registers<kType, FromRegisters::kLeast>(args_.epilogue, tile, n, acc);
      } else {
        store_registers<kType, FromRegisters::kMore>(args_.epilogue, tile, n, acc);
      }
      return stored_ = true;
    }
    return false;
  }

  float* scratch() const { return reinterpret_cast<float*>(workspace_); }
  char* idle() const { return workspace_ + blocking_.acc_offset - 1024; }
  float* acc(int segment) const {
    return reinterpret_cast<float*>(workspace_ + blocking_.acc_offset) + segment * blocking_.segment_columns;
  }

  const int64 unit_;
  Pending pending_ = {};
  bool stream_d_ = false, stored_ = false;  // stored: the micro-kernel has written its tile to D
  FromRegisters from_registers_ = FromRegisters::kNo;
  // The micro-kernel of a block with panels of fewer than tile_m rows.
  MicroOfRows fewer_rows_ = nullptr, last_rows_ = nullptr;  // of each panel, of the last one
  int buffer_ = 0;                                          // of scratch(), for the next tile
  [[no_unique_address]] AmxState<is_amx(kMma), kInteger> amx_;
};

// The kernel of the family: the entry of an instance calls it with its config.
template <GemmCpuConfig kConfig>
void gemm_cpu(const GemmArgs& args, unsigned unit, unsigned units) {
  static_assert(gemm_cpu_refusal(kConfig) == nullptr);
  GemmCpuUnit<kConfig>(args, unit, units).run();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
