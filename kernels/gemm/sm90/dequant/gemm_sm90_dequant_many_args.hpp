// SPDX-License-Identifier: MIT
// What host and gemm_sm90_dequant_many share: its arguments, and the order of its tiles. Its config is gemm_sm90_dequant's, without
// splits. Freestanding.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"

namespace tilewright {

// Rows of A are cut in pieces of a tile's tokens, of which a launch has those from `first` on.
struct GemmSm90DequantManyArgs {
  GemmSm90DequantArgs product;
  int first, pieces;  // of each entry of the batch
  int raster;         // pieces that take the same weights one after another
};

// A tile: columns `tile` of entry `batch` of B, and rows of piece `piece` of the launch.
struct DequantManyTile {
  int batch, tile, piece;
};
// Tiles go in groups of `raster` pieces; in a group tile of columns by tile of columns, each with all of the group's pieces: what runs
// at a time shares weights and A in the second level of cache.
constexpr DequantManyTile dequant_many_tile(unsigned at, unsigned tiles, unsigned pieces, unsigned raster) {
  const unsigned batch = at / (tiles * pieces), in_entry = at - batch * tiles * pieces;
  const unsigned group = in_entry / (tiles * raster), in_group = in_entry - group * tiles * raster;
  const unsigned first = group * raster, count = pieces - first < raster ? pieces - first : raster;
  const unsigned tile = in_group / count;
  return {static_cast<int>(batch), static_cast<int>(tile), static_cast<int>(first + in_group - tile * count)};
}

constexpr const char* gemm_sm90_dequant_many_refusal(const GemmSm90DequantConfig& c) {
  if (c.splits != 1) return "tiles of many rows have no parts along K: splits is not 1";
  return gemm_sm90_dequant_refusal(c);
}

}  // namespace tilewright
