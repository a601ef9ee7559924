// SPDX-License-Identifier: MIT
// What follows from a GemmPortableConfig: threads, shared memory, which configs are legal; and from a problem's sizes: the
// tiles, their order and the workspace of a split K. Host and kernel share it. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

// Knobs of gemm_portable in GemmArgs: block_k = columns of K in a split, a multiple of tile_k (0: all of K); block_m = rows
// of tiles in a band; block_n = what a launch does.
enum GemmPortablePhase : int64 {
  kPortableWhole = 0,   // D, or with a split the partial sums
  kPortableReduce = 1,  // adds the partial sums in the order of K and writes D
};
inline constexpr int64 kPortableBand = 8;       // tiles of a band share columns of B in the cache
inline constexpr int kPortableReduceRows = 16;  // of a tile in a block of the reducing launch

struct GemmPortableShape {
  int size;  // of an element
  int threads;
  bool a_mn_tile, b_mn_tile;  // rows of the tile in shared memory are K, not M or N
  int b_parts;                // tiles of B side by side: gate and up
  int a_bytes, b_bytes;       // of a stage; b: of one part
  int sum_pitch;              // elements between rows of sums in shared memory
  int shared_bytes;
  int blocks;  // that an SM holds at a time as far as registers go: a bound for the compiler
};

constexpr int portable_tile_bytes(PortableMma mma, bool mn_tile, int width, int tile_k, int size) {
  if (mma == PortableMma::kFma) return tile_k * (width * size + 16);  // padded rows
  return (mn_tile ? tile_k * width : width * tile_k) * size;
}

constexpr GemmPortableShape gemm_portable_shape(const GemmPortableConfig& c) {
  GemmPortableShape s{};
  s.size = dtype_bits(c.dtype) / 8;
  s.threads = 32 * c.warps_m * c.warps_n;
  const bool fma = c.mma == PortableMma::kFma;
  s.a_mn_tile = fma || (c.a_copy != 0 && c.a_major == Major::kMn);
  s.b_mn_tile = fma || (c.b_copy != 0 && c.b_major == Major::kMn);
  s.b_parts = c.gate == GateMode::kSeparated ? 2 : 1;
  s.a_bytes = portable_tile_bytes(c.mma, s.a_mn_tile, c.tile_m, c.tile_k, s.size);
  s.b_bytes = portable_tile_bytes(c.mma, s.b_mn_tile, c.tile_n / s.b_parts, c.tile_k, s.size);
  s.sum_pitch = c.tile_n + 8;
  const int stages = c.stages * (s.a_bytes + s.b_parts * s.b_bytes), sums = c.tile_m * s.sum_pitch * 4;
  s.shared_bytes = stages > sums ? stages : sums;
  s.blocks = s.threads > 128 ? 1 : 2;
  return s;
}

// Null, or why no kernel has this config.
constexpr const char* gemm_portable_refusal(const GemmPortableConfig& c) {
  const auto power_of_two = [](int x) { return x > 0 && (x & (x - 1)) == 0; };
  const auto copy = [](int bytes) { return bytes == 16 || bytes == 4 || bytes == 0; };
  const bool is_f32 = c.dtype == DType::kF32, fma = c.mma == PortableMma::kFma;
  if (c.dtype != DType::kF32 && c.dtype != DType::kBf16 && c.dtype != DType::kF16 && c.dtype != DType::kI8 &&
      !is_ocp_f8(c.dtype)) {
    return "dtype is none of f32, bf16, f16, i8, e4m3, e5m2";
  }
  if (is_f32 != (c.mma != PortableMma::kMma)) return "f32 takes fma or tf32, the others mma";
  if (!copy(c.a_copy) || !copy(c.b_copy)) return "a_copy and b_copy are 16, 4 or 0";
  if (!power_of_two(c.tile_m) || !power_of_two(c.tile_n) || !power_of_two(c.tile_k)) {
    return "tiles are powers of two";
  }
  if (c.warps_m < 1 || c.warps_n < 1 || c.warps_m * c.warps_n > 16) return "a block has 1 to 16 warps";
  if (c.stages < 2 || c.stages > 8) return "stages are 2 to 8";
  const GemmPortableShape s = gemm_portable_shape(c);
  const int warp_m = c.tile_m / c.warps_m, warp_n = c.tile_n / c.warps_n, width = c.tile_n / s.b_parts;
  if (c.tile_m % c.warps_m != 0 || c.tile_n % c.warps_n != 0) return "a tile is cut evenly among warps";
  if (c.tile_m > 256 || c.tile_n > 256 || width < 16) return "tiles are at most 256 wide, gate and up at least 16";
  if (fma) {
    if (warp_m % 16 != 0 || warp_n % 32 != 0) return "a warp of fma takes multiples of 16 x 32";
    if (c.tile_k < 8 || c.tile_k > 32) return "tile_k of fma is 8 to 32";
  } else {
    if (warp_m % 16 != 0 || warp_n % 16 != 0) return "a warp takes multiples of 16 x 16";
    if (c.tile_k * s.size < 32 || c.tile_k * s.size > 256) return "rows of K are 32 to 256 bytes";
    if (s.size != 2 && ((c.a_major == Major::kMn && c.a_copy != 0) || (c.b_major == Major::kMn && c.b_copy != 0))) {
      return "only 16-bit types are transposed on the way to the registers: copy 0";
    }
    if ((s.a_mn_tile && c.tile_m * s.size < 32) || (s.b_mn_tile && width * s.size < 32)) return "rows below 32 bytes";
  }
  if (fma && ((c.a_major == Major::kK && c.a_copy != 0) || (c.b_major == Major::kK && c.b_copy != 0))) {
    return "fma transposes what is contiguous along K: copy 0";
  }
  if (warp_m * warp_n / 32 > 128) return "more than 128 sums a thread";
  if (c.epilogue != EpilogueKind::kLinear && c.activation != Activation::kNone) return "activation belongs to linear";
  if (c.epilogue == EpilogueKind::kPlain && c.gate != GateMode::kNone) return "a gate belongs to linear or full";
  if (c.d_dtype != DType::kNone && c.d_dtype != DType::kF32 && c.d_dtype != DType::kBf16 && c.d_dtype != DType::kF16) {
    return "d_dtype is none of f32, bf16, f16, none";
  }
  return nullptr;
}

// The tiles of a problem.
struct GemmPortableTiles {
  int64 out_n;   // columns of D
  int64 m, n;    // tiles
  int64 splits;  // of K
};
constexpr GemmPortableTiles gemm_portable_tiles(const GemmPortableConfig& c, int64 m, int64 n, int64 k, int64 block_k) {
  const bool gated = c.gate != GateMode::kNone;
  const int64 out_n = gated ? n / 2 : n, tile_out = gated ? c.tile_n / 2 : c.tile_n;
  const int64 splits = block_k > 0 && block_k < k ? (k + block_k - 1) / block_k : 1;
  return {out_n, (m + c.tile_m - 1) / c.tile_m, (out_n + tile_out - 1) / tile_out, splits};
}
// Blocks of the reducing launch for a tile.
constexpr int gemm_portable_reduce_blocks(const GemmPortableConfig& c) { return c.tile_m / kPortableReduceRows; }
constexpr int64 gemm_portable_workspace_bytes(const GemmPortableConfig& c, const GemmPortableTiles& tiles,
                                              int64 batch) {
  return tiles.splits == 1 ? 0 : batch * tiles.m * tiles.n * tiles.splits * c.tile_m * c.tile_n * 4;
}

}  // namespace tilewright
