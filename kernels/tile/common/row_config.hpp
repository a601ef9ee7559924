// SPDX-License-Identifier: MIT
// Configs of row kernels, and what follows from them for host and kernels: pieces, threads of a block, shared memory. Freestanding.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/fields.hpp"
#include "tile/common/quantise.hpp"

namespace tilewright {

enum class Activation : unsigned char;  // kernels/gemm/gemm_args.hpp, as the next
enum class GateMode : unsigned char;

// Of kernels whose calls have programmatic edges: what they do before kernels in front have ended, beside asking for weights.
enum class RowEdge : unsigned char {
  kNone,      // nothing: they begin when those have ended
  kWait,      // wait for them
  kFetch,     // fetch rows to the second level of cache, where those may still write them
  kRehearse,  // and run once for nothing, so that instructions are there when the rows are
};
inline constexpr const char* kRowEdgeNames[] = {"none", "wait", "fetch", "rehearse"};
constexpr const char* const* enum_names(RowEdge) { return kRowEdgeNames; }
constexpr int enum_count(RowEdge) { return 4; }

// What a kernel is compiled for. kNone as x: typed at run time, all of it. `hadamard`, `chance`: quantize rotates blocks, rounds by chance.
struct RowCpuConfig {
  static constexpr const char* kTypeName = "RowCpuConfig";
  DType x, residual, out;  // residual: kNone = absent
  Quantisation quant;
  int group = 0;  // of neighbours whose scale is found, 16 to 128; else 0
  bool hadamard = false, chance = false;

  bool operator==(const RowCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("residual", self.residual);
    visit("out", self.out);
    visit("quant", self.quant);
    visit("group", self.group);
    visit("hadamard", self.hadamard);
    visit("chance", self.chance);
  }
};

// `threads` of a block share a row, in pieces of 8 elements; each keeps `pieces` of them in registers. 0: rows are read again.
// `columns`: the type of all vectors along a row; kNone: each has its own, told at run time. `whole`: rows have no rest, and every
// piece of them starts where one load or store takes it whole. `group`: of neighbours that share a scale; 0 where no group does, or
// told at run time. Of whole heads that turn, `threads` share the pairs, and each takes `pieces` heads of a token. `cluster` blocks of
// `threads` share a row: sm_90's. So do `parts` blocks that need not meet, where nothing is reduced across a row.
// `plain`: rows of one dimension, nothing that smooths columns, no 1 added to the weight and nothing rounded before it, no square; the
// next four fields tell what there is. Else the arguments tell all that at run time. `full`: whole rows that fill their threads, or of
// blocks that share a scale whole ones only: nothing asks what is there. `slots`: rows of a gradient that lie in a block's shared memory, or are on
// their way to it; 0: none. `edge`: of calls with programmatic edges.
struct RowGpuConfig {
  static constexpr const char* kTypeName = "RowGpuConfig";
  DType x, residual, out;
  Quantisation quant;
  int threads, pieces;
  DType columns = DType::kNone;
  bool whole = false;
  int group = 0, cluster = 1, parts = 1;
  bool plain = false, weight = false, bias = false;
  Activation activation{};
  GateMode gate{};
  bool hadamard = false, chance = false;  // as RowCpuConfig's
  bool full = false;
  int slots = 0;
  RowEdge edge = RowEdge::kNone;

  bool operator==(const RowGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("residual", self.residual);
    visit("out", self.out);
    visit("quant", self.quant);
    visit("threads", self.threads);
    visit("pieces", self.pieces);
    visit("columns", self.columns);
    visit("whole", self.whole);
    visit("group", self.group);
    visit("cluster", self.cluster);
    visit("parts", self.parts);
    visit("plain", self.plain);
    visit("weight", self.weight);
    visit("bias", self.bias);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("hadamard", self.hadamard);
    visit("chance", self.chance);
    visit("full", self.full);
    visit("slots", self.slots);
    visit("edge", self.edge);
  }
};

// Pieces a thread of a chunk, where rows are reduced in chunks: those that a cluster keeps are larger.
constexpr int row_chunk_pieces(int cluster) { return cluster > 1 ? 4 : 2; }

inline constexpr int kRowPiece = 8;           // elements that a thread takes at a time: 16 bytes of a 16-bit type
inline constexpr int kScaleBlockPieces = 8;   // of a thread, where 128 x 128 share a scale; fewer where rows are few
inline constexpr int kRowBlockThreads = 256;  // of a block, at most, unless a row takes more
inline constexpr int kRowLanes = 32;          // that exchange values in registers, on every GPU
inline constexpr int kRowReduced = 3;         // values that one reduction takes at most
inline constexpr int kRowLeftFloats = 32 * kRowReduced;  // floats that warps leave for each other in a reduction
inline constexpr int kRowSharedBytes = 2 * kRowLeftFloats * 4;
// Of a block, with what blocks of its cluster send each other.
inline constexpr int kRowFoundBytes = 32;  // a block, at most
constexpr int row_shared_bytes(int cluster) {
  return kRowSharedBytes + (cluster > 1 ? 2 * cluster * kRowFoundBytes + 16 : 0);
}
// Whether a row's weight is asked for together with the row: a few words a thread, else the registers are better spent on more blocks.
constexpr bool row_asks_weight(const RowGpuConfig& c) {
  if (!c.whole || c.pieces == 0 || c.columns == DType::kNone || (c.plain && !c.weight)) return false;
  return c.cluster > 1 || c.pieces * dtype_bits(c.columns) <= (c.threads <= kRowBlockThreads ? 64 : 16);
}
// What a kernel does of that.
constexpr bool has_edge(const RowGpuConfig& c) { return c.edge != RowEdge::kNone; }
constexpr bool fetches_rows(const RowGpuConfig& c) { return c.edge >= RowEdge::kFetch; }
constexpr bool rehearses(const RowGpuConfig& c) { return c.edge == RowEdge::kRehearse; }
// Whether grids on NVIDIA GPUs have a block for every row, where nothing is kept from one row to the next.
constexpr bool row_grid_covers(const RowGpuConfig& c) { return c.x != DType::kNone; }
inline constexpr int kMultipleGroup = 16, kPowerGroup = 32;  // elements that share a scale of NVFP4, and of MXFP4
// Whether what quantises has each group in one thread, on NVIDIA GPUs: elements become codes as they lie.
constexpr bool has_thread_groups(const RowGpuConfig& c) {
  return c.full && c.plain && c.out == DType::kF4E2M1 && c.quant == Quantisation::kGroup &&
         (c.group == kMultipleGroup || c.group == kPowerGroup) && dtype_bits(c.x) == 16 && c.residual == DType::kNone &&
         c.pieces > 0 && c.pieces * kRowPiece % c.group == 0 && c.cluster == 1 && c.parts == 1 && !c.hadamard &&
         !c.chance;
}
// Whether a thread's pieces lie side by side, two and two, on NVIDIA GPUs: half as many threads then share a group's scale. Of large groups
// that is less than what such loads cost norms; gates were not measured.
constexpr bool has_pairs_of_pieces(const RowGpuConfig& c) {
  const bool alone = c.plain && !c.weight && c.gate == GateMode{} && c.residual == DType::kNone;
  return (alone || c.group <= kPowerGroup) && c.quant == Quantisation::kGroup && c.group > 0 &&
         c.group % (2 * kRowPiece) == 0 && c.whole && c.pieces > 0 && c.pieces % 2 == 0 && dtype_bits(c.x) == 16 &&
         (c.residual == DType::kNone || dtype_bits(c.residual) == 16) && is_quantised(c.out) && !c.hadamard &&
         !c.chance;
}
constexpr int power_at_least(int n) {  // of 2
  int power = 1;
  while (power < n) power *= 2;
  return power;
}
// Of whole rows.
constexpr int row_block_threads(int threads) {
  return threads >= kRowBlockThreads ? threads : kRowBlockThreads / threads * threads;
}

// Blocks of a cluster that sm_90 places everywhere, and where it has so many multiprocessors: they come in at most eight groups, of which one has more than sixteen.
inline constexpr int kEveryCluster = 8, kLargeCluster = 16, kLargeClusterUnits = 132;

// Whether a kernel also finds a tensor's scale and writes its codes in one launch, of few rows: a row's pieces stay in one block. On sm_90.
constexpr bool finds_together(const RowGpuConfig& c) {
  return c.x != DType::kNone && c.pieces > 0 && c.cluster == 1 && c.parts == 1 &&
         (c.quant == Quantisation::kDynamic || (c.quant == Quantisation::kGroup && c.out == DType::kF4E2M1));
}
// Shared memory then: what each block of a cluster found, and a barrier.
inline constexpr int kRowLargestBytes = kRowSharedBytes + kLargeCluster * 16 + 16;

// Shared memory of a norm's gradient: where warps meet, and slots for rows of x, of the output's gradient and of what is added to x's, if anything is.
constexpr int row_met_bytes(int threads) {
  const int sums = row_block_threads(threads) * 4;  // a float a thread, where columns are summed
  return sums > kRowSharedBytes ? sums : kRowSharedBytes;
}
constexpr int row_slot_bytes(const RowGpuConfig& c) { return row_block_threads(c.threads) * c.pieces * 16; }
constexpr int row_backward_bytes(const RowGpuConfig& c, bool adds) {
  return row_met_bytes(c.threads) + c.slots * row_slot_bytes(c) * (adds ? 3 : 2);
}

// How one cluster of at most `most` blocks takes few rows of a gradient that lie in slots: each block has one or two of the warps that share a row, of `at_once` rows, and
// so has its own columns of all of them. `rows`: at most so many; 0 where that cannot be. More than two rows for each block cost more than a second launch.
struct RowTogether {
  int blocks, warps, at_once, rows;
};
constexpr RowTogether row_together(const RowGpuConfig& c, int most) {
  const int parts = c.threads / kRowLanes, warps = parts <= most ? 1 : 2;
  if (c.slots == 0 || parts < 2 || parts % warps != 0 || parts / warps > most) return {};
  const int blocks = parts / warps, at_once = row_block_threads(c.threads) / kRowLanes / warps;
  const int fit = at_once * c.slots, worth = blocks * 2;
  return {blocks, warps, at_once, fit < worth ? fit : worth};
}
// What a warp finds of a row, at most; and what is sent of all rows, behind the slots, with a barrier.
inline constexpr int kRowTogetherFound = 16;
constexpr int row_together_bytes(const RowGpuConfig& c, bool adds) {
  const int rows = row_together(c, kLargeCluster).rows;
  return row_backward_bytes(c, adds) + (rows == 0 ? 0 : 16 + rows * (c.threads / kRowLanes) * kRowTogetherFound);
}

}  // namespace tilewright
