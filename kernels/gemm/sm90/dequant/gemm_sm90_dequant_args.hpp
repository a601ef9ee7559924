// SPDX-License-Identifier: MIT
// What host and gemm_sm90_dequant share: its config, its arguments, what lies in shared memory, and the order in which it
// takes K. Freestanding.
#pragma once

#include "gemm/gemm_packed_fragments.hpp"
#include "gemm/narrow_weights_rules.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"

namespace tilewright {

struct GemmSm90DequantConfig {
  static constexpr const char* kTypeName = "GemmSm90DequantConfig";
  DType dtype;   // of A: bf16 or f16
  DType weight;  // of B
  DType scale;   // of groups along K of B, kNone = none
  int group;     // values along K that share a scale, 0 = all
  DType zero;    // of the groups' zero points, kNone = none
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  int rows;        // of the weights (columns of B) a block: 64, 128 or 256
  int tokens;      // rows of A: 8, 16, 32, 64 or 128
  int warpgroups;  // that multiply, of 64 or 128 rows each
  int stages;      // of weights and A in flight
  int blocks;      // on a multiprocessor at a time
  int splits;      // blocks that share the K of a tile: 1, 2, 4, 8, of a cluster 3, 6 too; 0: equal shares of all tiles
  int cluster;     // 1, or `splits`: those blocks
  bool packed;     // B: fragments of gemm_packed_fragments.hpp
  int scale_row;   // bytes of a row's scales, at most, where those of a tile come whole; 0: they come step by step

  bool operator==(const GemmSm90DequantConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("weight", self.weight);
    visit("scale", self.scale);
    visit("group", self.group);
    visit("zero", self.zero);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("rows", self.rows);
    visit("tokens", self.tokens);
    visit("warpgroups", self.warpgroups);
    visit("stages", self.stages);
    visit("blocks", self.blocks);
    visit("splits", self.splits);
    visit("cluster", self.cluster);
    visit("packed", self.packed);
    visit("scale_row", self.scale_row);
  }
};

struct GemmSm90DequantArgs {
  GemmSm90SkinnyArgs product;  // `a` is a tensor map where A comes as it lies; else it is loaded by address
  GemmBlockScale zero_b;       // of the groups of product.scale.b
  unsigned char* tokens;       // else A rearranged: [batch, step], each a stage's bytes as they lie in shared memory
  unsigned* blocks_done;       // with their share of that; zero before and after
};

// A stage: 128 bytes of K of all rows of the weights, and the same K of A, two bytes a value.
constexpr int gemm_sm90_dequant_tile_k(DType weight) { return kSkinnyRowBytes * 8 / dtype_bits(weight); }
inline constexpr int kDequantWords = 8;  // of a stage that a thread has of a row

// The parts of gemm_sm90_skinny that are shared: the cut of the work, how sums travel, D. They see the config of that
// kernel with the same sums; a step of it is a stage of this one.
constexpr GemmSm90SkinnyConfig gemm_sm90_dequant_sums(const GemmSm90DequantConfig& c) {
  return {.dtype = DType::kBf16,
          .epilogue = c.epilogue,
          .activation = c.activation,
          .gate = c.gate,
          .d_dtype = c.d_dtype,
          .promote = Promotion::kNone,
          .rows = c.rows,
          .tokens = c.tokens,
          .warpgroups = c.warpgroups,
          .depth = gemm_sm90_dequant_tile_k(c.weight) / 64,
          .stages = c.stages,
          .cluster = c.cluster,
          .blocks = c.blocks,
          .splits = c.splits};
}

inline constexpr int kDequantMostTokens = 128;
// Sums of 64 rows by a token that a warpgroup keeps, with those of a group that stands apart.
constexpr int gemm_sm90_dequant_kept_sums(const GemmSm90DequantConfig& c) {
  return (c.rows / 64 / c.warpgroups + (narrow_weights_promote(c) ? 1 : 0)) * c.tokens;
}
// More of them than 168 registers hold: who brings what is multiplied is then a warpgroup too, which gives registers away.
constexpr bool gemm_sm90_dequant_lends(const GemmSm90DequantConfig& c) {
  return c.warpgroups == 2 && gemm_sm90_dequant_kept_sums(c) > 192;
}
struct DequantRegisters {
  int consumer, producer;
};
// Of 384 threads with 168 each, no more than these together: who asks for more waits for ever.
inline constexpr DequantRegisters kDequantLentRegisters = {224, 56};
static_assert(2 * kDequantLentRegisters.consumer + kDequantLentRegisters.producer <= 3 * 168);

// Whether A comes as it lies: the weights were packed in an instruction's own order of K.
constexpr bool gemm_sm90_dequant_in_order(const GemmSm90DequantConfig& c) {
  return c.packed && fragments_in_order(c.weight);
}
// Whether the parts of a tile meet in a cluster.
constexpr bool gemm_sm90_dequant_parts_meet(const GemmSm90DequantConfig& c) {
  return gemm_sm90_skinny_parts_meet(gemm_sm90_dequant_sums(c));
}
inline constexpr int kDequantSliceK = kSkinnyRowBytes / 2;  // of A, in a stage: a row of it
// Slices that a copy of A as it lies brings: all of a stage, or of fewer tokens one, behind which there is room for the others.
constexpr int dequant_slices_at_once(int stage_tokens, int tokens, int slices) {
  return stage_tokens == tokens ? slices : 1;
}

// Whether each warp multiplies for itself (mma.sync): of eight tokens wgmma is not faster than of sixteen.
constexpr bool gemm_sm90_dequant_by_warp(const GemmSm90DequantConfig& c) {
  return narrow_weights_promote(c) && c.group >= 64 && c.tokens == 8 && c.warpgroups <= 2;
}

// The order of K. Words of a stage that follow one another in memory and are one thread's; then it is the turn of the next of
// the four that share a row. Where groups are summed apart the four share a group; weights that take their scales along have 16
// bytes of each half of a stage's K, which one scale serves; else each has 32 bytes of its own.
constexpr int gemm_sm90_dequant_run(const GemmSm90DequantConfig& c) {
  if (narrow_weights_fold(c) || c.packed) return kDequantWords / 2;
  if (!narrow_weights_promote(c)) return kDequantWords;
  const int of_group = c.group / word_values(c.weight) / 4;
  return of_group < kDequantWords ? of_group : kDequantWords;
}
// Word `word` (0 to 7) of a thread, which is number `quarter` of the four, holds consecutive values of a stage's K from here on.
constexpr int gemm_sm90_dequant_word_k(const GemmSm90DequantConfig& c, int word, int quarter) {
  const int run = gemm_sm90_dequant_run(c);
  return ((word / run * 4 + quarter) * run + word % run) * word_values(c.weight);
}
// Which of eight neighbouring rows a thread of the `octet`-th four has. Threads that read shared memory at a time, two fours for
// sixteen bytes, four for eight, then have rows whose swizzles set their places apart: no bank is met twice.
constexpr int gemm_sm90_dequant_row(const GemmSm90DequantConfig& c, int octet) {
  if (c.packed) return octet;
  const int run = gemm_sm90_dequant_run(c), left = run == 4 ? 2 : run == 2 ? 1 : 0;
  return (octet << left | octet >> (3 - left)) & 7;
}
// A's pieces. A piece is what two instructions multiply: 32 values of K, 64 bytes of a token's row in shared memory, of
// which sixteen bytes `chunk` hold one pair of each quarter. They come from 32 loaded values, 8 from each of four places.
constexpr int gemm_sm90_dequant_pieces(DType weight) { return gemm_sm90_dequant_tile_k(weight) / 32; }
constexpr int gemm_sm90_dequant_piece_k(const GemmSm90DequantConfig& c, int piece, int place) {
  return gemm_sm90_dequant_word_k(c, piece * 8 / word_values(c.weight), place);
}
// Which of the loaded values, 0 to 31, is half `half` of the pair of `quarter` in `chunk`.
constexpr int gemm_sm90_dequant_piece_value(const GemmSm90DequantConfig& c, int chunk, int quarter, int half) {
  if (dtype_bits(c.weight) == 4) return quarter * 8 + pair_value(c.weight, chunk, half);
  return quarter * 8 + chunk / 2 * 4 + pair_value(c.weight, chunk % 2, half);
}

// Groups of a step, and the bytes of a stage that their scales and zero points take: codes of scales that go along, else f32;
// operands that widen the weights less their zero points.
constexpr int gemm_sm90_dequant_groups(const GemmSm90DequantConfig& c) {
  return c.group == 0 ? 0 : gemm_sm90_dequant_tile_k(c.weight) / c.group;
}
constexpr int gemm_sm90_dequant_scale_bytes(const GemmSm90DequantConfig& c) {
  if (c.scale_row != 0) return 0;
  return c.rows * gemm_sm90_dequant_groups(c) * (narrow_weights_fold(c) ? 1 : 4);
}
constexpr int gemm_sm90_dequant_operand_bytes(const GemmSm90DequantConfig& c) {
  return c.zero == DType::kNone ? 0 : c.rows * gemm_sm90_dequant_groups(c) * 8;
}

// Whether what varies by column is asked for behind a tile's products: beside them there are no registers for it.
constexpr bool gemm_sm90_dequant_late_columns(const GemmSm90DequantConfig& c) {
  if (c.epilogue != EpilogueKind::kLinear) return false;
  if (c.warpgroups == 2 && gemm_sm90_dequant_kept_sums(c) >= 192) return true;
  const bool many_warps = c.blocks * c.warpgroups >= 4, many_tokens = c.tokens >= 32;
  return c.gate == GateMode::kInterleaved ? many_warps || many_tokens : many_warps && many_tokens;
}

// Scales that come whole, a tile's rows one after another as they lie: the copy engine brings sixteens, of which the first rows of
// both halves of a separated gate may begin inside one. Of the tile at hand, and of the next one.
inline constexpr int kDequantScaleSlots = 2, kDequantCopiedBytes = 16, kDequantMostScaleRow = 256;
constexpr int gemm_sm90_dequant_scale_slot_bytes(const GemmSm90DequantConfig& c) {
  return c.scale_row == 0 ? 0 : c.rows * c.scale_row + 2 * kDequantCopiedBytes;
}

// Warps that bring scales: one for each warpgroup that multiplies where there are many scales, and registers to spare.
constexpr int gemm_sm90_dequant_scale_warps(const GemmSm90DequantConfig& c) {
  if (c.group == 0 || c.scale_row != 0) return 0;
  if (narrow_weights_fold(c)) return c.warpgroups;
  // Who has given registers away holds fewer scales.
  if (gemm_sm90_dequant_lends(c) && (c.zero != DType::kNone || gemm_sm90_dequant_groups(c) >= 4)) return 2;
  return gemm_sm90_dequant_groups(c) >= 4 && c.tokens <= 16 && c.warpgroups <= 2 ? c.warpgroups : 1;
}
// Behind those that multiply a warp asks for weights and A, then those that bring scales.
constexpr int gemm_sm90_dequant_threads(const GemmSm90DequantConfig& c) {
  return c.warpgroups * 128 + (gemm_sm90_dequant_lends(c) ? 128 : 32 + gemm_sm90_dequant_scale_warps(c) * 32);
}
constexpr int gemm_sm90_dequant_weight_bytes(const GemmSm90DequantConfig& c) { return c.rows * kSkinnyRowBytes; }
constexpr int gemm_sm90_dequant_token_bytes(const GemmSm90DequantConfig& c) {
  return c.tokens * gemm_sm90_dequant_tile_k(c.weight) * 2;
}
constexpr int gemm_sm90_dequant_shared_bytes(const GemmSm90DequantConfig& c) {
  return c.stages * (gemm_sm90_dequant_weight_bytes(c) + gemm_sm90_dequant_token_bytes(c) +
                     gemm_sm90_dequant_scale_bytes(c) + gemm_sm90_dequant_operand_bytes(c)) +
         kDequantScaleSlots * gemm_sm90_dequant_scale_slot_bytes(c) +
         gemm_sm90_skinny_met_bytes(gemm_sm90_dequant_sums(c)) +
         c.warpgroups * 4 * gemm_sm90_skinny_box_bytes(gemm_sm90_dequant_sums(c)) + c.tokens * 4 +
         (2 * c.stages + kDequantScaleSlots + (gemm_sm90_dequant_parts_meet(c) ? 1 : 0)) * 8;
}

// Null, or why there is no kernel of this config.
constexpr const char* gemm_sm90_dequant_refusal(const GemmSm90DequantConfig& c) {
  if (const char* reason = narrow_weights_refusal(c)) return reason;
  if (c.scale == DType::kNone && c.weight == DType::kF4E2M1 && c.dtype == DType::kF16) {
    return "e2m1 as f16 wants the factor of a scale";
  }
  if (c.epilogue == EpilogueKind::kFull) return "a full epilogue has no place in registers";
  if (c.rows != 64 && c.rows != 128 && c.rows != 192 && c.rows != 256) return "rows are none of 64, 128, 192, 256";
  if (c.tokens != 8 && c.tokens != 16 && c.tokens != 32 && c.tokens != 64 && c.tokens != 128) {
    return "tokens are none of 8, 16, 32, 64, 128";
  }
  if (c.warpgroups < 1 || c.warpgroups > 4) return "warpgroups outside [1, 4]";
  if (c.rows % (c.warpgroups * 64) != 0) return "rows are no multiple of the warpgroups' 64";
  const int parts = c.rows / 64 / c.warpgroups;
  if (parts != 1 && parts != 2) return "a warpgroup has neither 64 rows nor 128";
  if (c.gate == GateMode::kSeparated && parts != 2) return "a separated gate wants 128 rows a warpgroup";
  if (c.warpgroups == 4 && c.tokens > 32) return "more sums than a thread's registers hold";
  const int sums = gemm_sm90_dequant_kept_sums(c);
  if (sums > (c.warpgroups == 2 && c.blocks == 1 ? 256 : 192)) return "more sums than a thread's registers hold";
  if (c.stages < 2 || c.stages > 24) return "stages outside [2, 24]";
  if (c.blocks != 1 && c.blocks != 2) return "blocks are none of 1, 2";
  const int scale_bits = gemm_sm90_dequant_groups(c) * dtype_bits(c.scale);  // of a row a step
  if ((c.rows > 192 && scale_bits > 32 && gemm_sm90_dequant_scale_warps(c) == 1) ||
      (c.rows > 128 && c.zero != DType::kNone && scale_bits > 128)) {
    return "more scales of a step than a lane's registers hold";
  }
  if (c.cluster != 1 && c.cluster != 2 && c.cluster != 3 && c.cluster != 4 && c.cluster != 6 && c.cluster != 8) {
    return "cluster is none of 1, 2, 3, 4, 6, 8";
  }
  if (c.cluster != 1 && c.splits != c.cluster) return "the blocks of a cluster are not the parts of a tile";
  // Others wait for each other's share of A, so that all of them have to be there at a time.
  if (c.cluster != 1 && !gemm_sm90_dequant_in_order(c)) return "parts meet only where A comes as it lies";
  if (c.splits != 0 && c.splits != 1 && c.splits != 2 && c.splits != 4 && c.splits != 8 && c.splits != c.cluster) {
    return "splits are none of 0, 1, 2, 4, 8, nor the cluster";
  }
  if (c.packed && !fragments_in_order(c.weight) && !narrow_weights_fold(c)) {
    return "packed weights are neither i4 or u4 nor take their scales along";
  }
  if (c.scale_row != 0 && !narrow_weights_fold(c)) return "whole scales are none that weights take along";
  if (c.scale_row < 0 || c.scale_row > kDequantMostScaleRow || c.scale_row % kDequantCopiedBytes != 0) {
    return "scale_row is no multiple of 16 in [0, 256]";
  }
  return nullptr;
}

}  // namespace tilewright
