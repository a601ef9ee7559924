// SPDX-License-Identifier: MIT
// gemm_sm90_dequant_many: GEMM for Hopper with any number of rows of A, in 16 bits, and narrow weights that are widened in registers. It
// is gemm_sm90_dequant, whose entries of A are pieces of a tile's tokens: every tile widens its weights again.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_many_args.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_view.cuh"

namespace tilewright {

// All tiles of a launch; each block takes every so many-th.
class DequantManyWork {
 public:
  __device__ __forceinline__ DequantManyWork(const GemmSm90DequantManyArgs& args, int tokens, unsigned tiles,
                                             unsigned chunks)
      : args_(args),
        tokens_(tokens),
        chunks_(static_cast<int>(chunks)),
        tiles_(tiles),
        at_(sm90::cluster_id()),
        end_(static_cast<unsigned>(args.pieces) * tiles * static_cast<unsigned>(args.product.product.gemm.batch)) {}

  __device__ __forceinline__ bool take(SkinnySegment& s) {
    if (at_ >= end_) return false;
    const auto pieces = static_cast<unsigned>(args_.pieces);
    const DequantManyTile at = dequant_many_tile(at_, tiles_, pieces, static_cast<unsigned>(args_.raster));
    at_ += sm90::cluster_count();
    s.tile = at.tile, s.batch = at.batch;
    s.entry = (args_.product.product.batch_a ? at.batch * args_.pieces : 0) + at.piece;
    s.row = (args_.first + at.piece) * tokens_;
    s.k0 = 0, s.k1 = chunks_;
    return true;
  }
  __device__ __forceinline__ SkinnyShare share(const SkinnySegment&) const { return {0, 0, 1}; }

 private:
  const GemmSm90DequantManyArgs& args_;
  int tokens_, chunks_;
  unsigned tiles_, at_, end_;
};

template <GemmSm90DequantConfig kConfig>
class DequantPieces {
 public:
  using Work = DequantManyWork;

  __device__ __forceinline__ explicit DequantPieces(const GemmSm90DequantManyArgs& args) : args_(args) {}

  __device__ __forceinline__ void find(int) const {}
  __device__ __forceinline__ int entries() const {
    return args_.pieces * (skinny().batch_a ? static_cast<int>(skinny().gemm.batch) : 1);
  }
  __device__ __forceinline__ DequantRows rows(int entry) const {
    const GemmArgs& gemm = skinny().gemm;
    const int batch = entry / args_.pieces, row = row_of(entry - batch * args_.pieces);
    return {static_cast<const unsigned short*>(gemm.a) + batch * gemm.stride_a_batch + row * gemm.stride_a_m,
            count(row)};
  }
  // Rows behind the last one are not there, and come as zeros.
  __device__ __forceinline__ DequantPlace place(const SkinnySegment& s) const {
    return {s.row, skinny().batch_a ? s.batch : 0};
  }
  __device__ __forceinline__ Work work(unsigned chunks) const {
    constexpr int kColumns = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(kConfig));
    constexpr int kHalves = kConfig.gate == GateMode::kSeparated ? 2 : 1;
    const auto n = static_cast<unsigned>(skinny().gemm.n) / kHalves;
    return Work(args_, kConfig.tokens, (n + kColumns - 1) / kColumns, chunks);
  }
  __device__ __forceinline__ GemmSm90SkinnyArgs product(const SkinnySegment& s) const {
    return gemm_sm90_skinny_view(skinny(), s.row, count(s.row));
  }
  __device__ __forceinline__ int turn(const SkinnySegment& s) const {
    return s.batch * args_.pieces + s.row / kConfig.tokens - args_.first;
  }

 private:
  __device__ __forceinline__ const GemmSm90SkinnyArgs& skinny() const { return args_.product.product; }
  __device__ __forceinline__ int row_of(int piece) const { return (args_.first + piece) * kConfig.tokens; }
  // Of a piece that begins with row `row`.
  __device__ __forceinline__ int count(int row) const {
    const int64 left = skinny().gemm.m - row;
    return left < kConfig.tokens ? static_cast<int>(left) : kConfig.tokens;
  }

  const GemmSm90DequantManyArgs& args_;
};

template <GemmSm90DequantConfig kConfig>
__device__ __forceinline__ void gemm_sm90_dequant_many(const GemmSm90DequantManyArgs& args) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const GemmSm90DequantLayout<kConfig> shared(dynamic_shared);
  gemm_sm90_dequant_block<kConfig>(args.product, shared, DequantPieces<kConfig>(args));
}

}  // namespace tilewright
