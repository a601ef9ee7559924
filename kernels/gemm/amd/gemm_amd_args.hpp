// SPDX-License-Identifier: MIT
// What host and gemm_amd share: its config, what follows from it, and how a problem is cut. Freestanding.
#pragma once

#include "gemm/gemm_scale_args.hpp"

namespace tilewright {

struct GemmAmdConfig {
  static constexpr const char* kTypeName = "GemmAmdConfig";
  DType dtype, b_dtype;  // of A; of B, the same but for floats of 8 and 4 bits on CDNA4
  int wave;              // lanes of the target's waves
  int mma;               // rows and columns of the matrix instruction: 32 or 16
  Major a_major, b_major;
  bool b_packed;               // gemm_pack_weights made B: b_major is mn, b_copy 16
  int a_copy, b_copy;          // bytes of a chunk on its way to LDS: 16, or 0 = by elements, of any strides
  DType scale;                 // of blocks: e8m0 of 1 x 32, f32 of 1 x 128 of A with 128 x 128 of B, or none
  int scale_copy;              // bytes of scales read together along K: 4, or 1 = of any strides; 0 = none
  int tile_m, tile_n, tile_k;  // of a workgroup
  int waves_m, waves_n;
  int direct;  // 1: copies go straight to LDS (CDNA4, chunks along K), 0: through registers
  int stages;  // tiles of K in LDS: 1 or 2; direct: 2 to 4
  EpilogueKind epilogue;
  Activation activation;
  GateMode gate;
  DType d_dtype;

  bool operator==(const GemmAmdConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("b_dtype", self.b_dtype);
    visit("wave", self.wave);
    visit("mma", self.mma);
    visit("a_major", self.a_major);
    visit("b_major", self.b_major);
    visit("b_packed", self.b_packed);
    visit("a_copy", self.a_copy);
    visit("b_copy", self.b_copy);
    visit("scale", self.scale);
    visit("scale_copy", self.scale_copy);
    visit("tile_m", self.tile_m);
    visit("tile_n", self.tile_n);
    visit("tile_k", self.tile_k);
    visit("waves_m", self.waves_m);
    visit("waves_n", self.waves_n);
    visit("direct", self.direct);
    visit("stages", self.stages);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
  }
  constexpr GemmEpilogueConfig epilogue_config() const { return {epilogue, activation, gate, d_dtype}; }
};

enum class GemmAmdPhase : int {
  kWork,    // D, or, where K is cut, partial sums
  kReduce,  // adds the partial sums of cut tiles in the order of K and writes D
};

// The tiles of a problem, and the steps along K of each. The host refuses problems of 2^31 steps and more in all.
inline constexpr int64 kMaxAmdSteps = int64{1} << 31;

struct GemmAmdTiles {
  int64 out_n;           // columns of D
  unsigned m, n, count;  // tiles; of all entries of the batch
  unsigned steps;
  unsigned splits;  // of K, one after another in the workspace
};

struct GemmAmdArgs {
  GemmArgs gemm;
  GemmAmdTiles tiles;
  GemmAmdPhase phase;
  unsigned xcds;     // dies that workgroups are dealt out to in turn, each with a cache of its own
  unsigned band;     // rows of tiles that share columns of B in the cache
  unsigned split_k;  // steps of tile_k in a part of K; 0 = all of them
  unsigned workers;  // stream-K: workgroups that share all steps of all tiles evenly; 0 = one tile or part each
  GemmScaleArgs scale;
};

// What scales along K come in: four of them in a word.
inline constexpr int kAmdScaleDepth = 32, kAmdScaleWord = 4 * kAmdScaleDepth;

struct GemmAmdShape {
  int a_size, b_size;  // bytes that are copied as one: an element, or two of 4 bits
  int threads;
  int a_row_bytes, b_row_bytes;         // of tile_k
  int scale_words, a_scales, b_scales;  // of a row, of the tiles of A and B with what fills their last wave
  int a_bytes, b_bytes, scale_bytes;    // of a stage
  int stage_bytes;
  int wave_rows, wave_columns;          // of D, per wave; with a gate the columns of B
  int blocks_m, blocks_n;               // matrix instructions of a wave
  int unit_columns, pitch, unit_bytes;  // sums on their way through LDS: a row of blocks of one wave at a time
  int lds_bytes;
};

constexpr GemmAmdShape gemm_amd_shape(const GemmAmdConfig& c) {
  GemmAmdShape s{};
  const int a_bits = dtype_bits(c.dtype), b_bits = dtype_bits(c.b_dtype);
  s.a_size = a_bits < 8 ? 1 : a_bits / 8, s.b_size = b_bits < 8 ? 1 : b_bits / 8;
  s.threads = c.wave * c.waves_m * c.waves_n;
  s.a_row_bytes = c.tile_k * a_bits / 8, s.b_row_bytes = c.tile_k * b_bits / 8;
  s.a_bytes = c.tile_m * s.a_row_bytes, s.b_bytes = c.tile_n * s.b_row_bytes;
  if (c.scale_copy != 0) {
    s.scale_words = c.tile_k / kAmdScaleWord;
    s.a_scales = (c.tile_m * s.scale_words + 63) / 64 * 64, s.b_scales = (c.tile_n * s.scale_words + 63) / 64 * 64;
    s.scale_bytes = (s.a_scales + s.b_scales + s.threads - 1) / s.threads * s.threads * 4;
  }
  s.stage_bytes = s.a_bytes + s.b_bytes + s.scale_bytes;
  s.wave_rows = c.tile_m / c.waves_m, s.wave_columns = c.tile_n / c.waves_n;
  s.blocks_m = s.wave_rows / c.mma, s.blocks_n = s.wave_columns / c.mma;
  s.unit_columns = s.wave_columns < 64 ? s.wave_columns : 64;
  s.pitch = s.unit_columns + 4;  // rows begin four banks apart
  s.unit_bytes = c.mma * s.pitch * 4;
  const int stages = c.stages * s.stage_bytes, units = c.waves_m * c.waves_n * s.unit_bytes;
  s.lds_bytes = stages > units ? stages : units;
  return s;
}

constexpr bool is_block_scaled(DType dtype) { return is_ocp_f8(dtype) || dtype == DType::kF4E2M1; }

// Null, or why no kernel has this config; which instructions there are, the host knows of each target.
constexpr const char* gemm_amd_refusal(const GemmAmdConfig& c) {
  const auto power_of_two = [](int x) { return x > 0 && (x & (x - 1)) == 0; };
  const int bits = dtype_bits(c.dtype);
  const bool scalable = is_block_scaled(c.dtype) && is_block_scaled(c.b_dtype);
  if (c.scale_copy != 0 && c.scale_copy != 1 && c.scale_copy != 4) return "scale_copy is 0, 1 or 4";
  const bool promoted = c.scale == DType::kF32;
  if (promoted || c.scale == DType::kE8M0 ? c.scale_copy == 0 : c.scale_copy != 0 || c.scale != DType::kNone) {
    return "block scales are e8m0, f32 or none";
  }
  if (promoted && (!is_f8(c.dtype) || c.b_dtype != c.dtype || c.wave != 64)) return "f32 scales are of one type of f8";
  if (promoted && (c.tile_k != kAmdScaleWord || c.scale_copy != 4)) return "f32 scales are of 128 of K, the tile's";
  if (c.scale == DType::kE8M0 && !scalable) return "e8m0 scales are of e4m3, e5m2 and e2m1";
  if (!scalable && c.b_dtype != c.dtype) return "A and B of two types are of e4m3, e5m2 and e2m1";
  if (!scalable && bits != 32 && bits != 16 && bits != 8) return "dtype is of 32, 16 or 8 bits";
  const bool a_across = c.dtype == DType::kF4E2M1 && c.a_major == Major::kMn;
  if (a_across || (c.b_dtype == DType::kF4E2M1 && c.b_major == Major::kMn)) return "e2m1 lies along K";
  if (c.b_packed && (c.b_major != Major::kMn || c.b_copy != 16)) return "packed weights come in chunks along N";
  if (c.b_packed && (bits == 4 || is_f8(c.dtype))) return "packed weights are of f32, f16, bf16 and i8";
  if (c.wave != 64 && c.wave != 32) return "waves are of 64 or 32 lanes";
  if (c.mma != 16 && c.mma != 32) return "mma is 32 or 16";
  if ((c.a_copy != 16 && c.a_copy != 0) || (c.b_copy != 16 && c.b_copy != 0)) return "a_copy and b_copy are 16 or 0";
  if (!power_of_two(c.tile_m) || !power_of_two(c.tile_n) || !power_of_two(c.tile_k)) return "tiles are powers of two";
  if (!power_of_two(c.waves_m) || !power_of_two(c.waves_n)) return "waves are powers of two";
  if (c.tile_m > 256 || c.tile_n > 256) return "tiles are at most 256 wide";
  if (c.direct != 0 && c.direct != 1) return "direct is 0 or 1";
  if (c.stages < 1 + c.direct || c.stages > 2 + 2 * c.direct) return "stages are 1 or 2, of direct copies 2 to 4";
  const bool along_k = c.a_major == Major::kK && c.b_major == Major::kK && c.a_copy == 16 && c.b_copy == 16;
  if (c.direct == 1 && (c.wave != 64 || !along_k)) return "direct copies are of waves of 64, in chunks along K";
  const GemmAmdShape s = gemm_amd_shape(c);
  if (s.threads > 512) return "more than 512 work-items";
  const auto fits_rows = [](int bytes) { return bytes == 64 || bytes == 128 || bytes == 256; };
  if (!fits_rows(s.a_row_bytes) || !fits_rows(s.b_row_bytes)) return "rows of K are 64, 128 or 256 bytes";
  if (c.scale_copy != 0 && c.tile_k % kAmdScaleWord != 0) return "block scales come for 128 of K";
  if (c.direct == 1 && c.scale_copy == 1) return "direct copies bring block scales four at a time";
  if (s.wave_rows < c.mma || s.wave_columns < c.mma) return "a wave has at least one block of the instruction";
  const int parts = c.gate == GateMode::kSeparated ? 2 : 1;
  if (s.wave_columns / parts < c.mma) return "a wave has at least one block of gate and up each";
  if (s.unit_columns < 16 * parts) return "a wave has at least 16 columns of D";
  // Every work-item brings whole chunks of a tile, and with a separated gate of either half of it.
  const auto uneven = [&s](Major major, int copy, int rows, int row_bytes) {
    const int pieces = (major == Major::kMn && copy != 0 ? rows / 4 : rows) * (row_bytes / 16);
    return pieces % s.threads != 0;
  };
  if (uneven(c.a_major, c.a_copy, c.tile_m, s.a_row_bytes) ||
      uneven(c.b_major, c.b_copy, c.tile_n / parts, s.b_row_bytes)) {
    return "fewer pieces of a tile than work-items";
  }
  if (s.wave_rows * s.wave_columns / c.wave > 256) return "more than 256 sums a lane";
  if (c.epilogue != EpilogueKind::kLinear && c.activation != Activation::kNone) return "activation belongs to linear";
  if (c.epilogue == EpilogueKind::kPlain && c.gate != GateMode::kNone) return "a gate belongs to linear or full";
  if (c.d_dtype != DType::kNone && c.d_dtype != DType::kF32 && c.d_dtype != DType::kBf16 && c.d_dtype != DType::kF16) {
    return "d_dtype is none of f32, bf16, f16, none";
  }
  return nullptr;
}

// split_k: steps of tile_k in a part, 0 = all.
constexpr GemmAmdTiles gemm_amd_tiles(const GemmAmdConfig& c, int64 m, int64 n, int64 k, int64 batch,
                                      unsigned split_k) {
  const bool gated = c.gate != GateMode::kNone;
  GemmAmdTiles t{};
  t.out_n = gated ? n / 2 : n;
  const int tile_out = gated ? c.tile_n / 2 : c.tile_n;
  t.m = static_cast<unsigned>((m + c.tile_m - 1) / c.tile_m);
  t.n = static_cast<unsigned>((t.out_n + tile_out - 1) / tile_out);
  t.count = t.m * t.n * static_cast<unsigned>(batch);
  t.steps = static_cast<unsigned>((k + c.tile_k - 1) / c.tile_k);
  t.splits = split_k > 0 && split_k < t.steps ? (t.steps + split_k - 1) / split_k : 1;
  return t;
}

// Stream-K: the steps of a worker, all tiles one after another, are [first(worker), first(worker + 1)).
constexpr unsigned gemm_amd_first_step(const GemmAmdTiles& t, unsigned workers, unsigned worker) {
  const unsigned all = t.count * t.steps, more = all % workers;
  return all / workers * worker + (worker < more ? worker : more);
}

// Partial tiles in the workspace. A worker of stream-K has at most two: of its first tile and of its last.
constexpr int64 gemm_amd_partial_tiles(const GemmAmdTiles& t, unsigned workers) {
  return workers > 0 ? 2 * int64{workers} : t.splits > 1 ? int64{t.count} * t.splits : 0;
}
constexpr int64 gemm_amd_workspace_bytes(const GemmAmdConfig& c, const GemmAmdTiles& t, unsigned workers) {
  return gemm_amd_partial_tiles(t, workers) * c.tile_m * c.tile_n * 4;
}
// Workgroups of the reducing launch for a tile: a row of blocks of each wave.
constexpr int gemm_amd_reduce_slices(const GemmAmdConfig& c) { return gemm_amd_shape(c).blocks_m; }

}  // namespace tilewright
