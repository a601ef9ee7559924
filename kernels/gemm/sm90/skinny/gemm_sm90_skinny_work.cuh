// SPDX-License-Identifier: MIT
// How gemm_sm90_skinny cuts its work: which cluster has which part of which tile.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"
#include "tile/sm90/cluster.cuh"

namespace tilewright {

// Part of K of one tile.
struct SkinnySegment {
  int tile, batch;
  int entry;    // of A: the batch index, 0 where all have the same
  int row = 0;  // of A: the entry's first
  int k0, k1;   // in steps of K
};
// It is part `index` of `count` of that tile, which begin with part `first` of all.
struct SkinnyShare {
  int first, index, count;
};

// The segments of a cluster. splits > 0: every tile in so many parts, which each complete an equal share of the tokens.
// splits = 0: the tiles' K one after another, cut into one piece a cluster; who has a tile's first part completes it. That
// is a cluster's last segment, and by then the other part, the first segment of a cluster that began earlier, is done.
// kMeet: the parts of a tile are the blocks of a cluster, which has no other tile.
template <int kSplits, bool kMeet = false>
class SkinnyWork {
 public:
  __device__ __forceinline__ SkinnyWork(const GemmSm90SkinnyArgs& args, unsigned tile_columns, unsigned chunks)
      : args_(args), chunks_(chunks), tiles_((static_cast<unsigned>(args.gemm.n) + tile_columns - 1) / tile_columns) {
    if (kSplits > 0) {
      at_ = kMeet ? blockIdx.x : sm90::cluster_id();
      end_ = tiles_ * static_cast<unsigned>(args.gemm.batch) * kSplits;
    } else {
      range_ = sm90::cluster_count() - 1 - sm90::cluster_id();
      at_ = start(range_);
      end_ = start(range_ + 1);
    }
  }

  __device__ __forceinline__ bool take(SkinnySegment& s) {
    if (at_ >= end_) return false;
    unsigned tile;
    if constexpr (kSplits > 0) {
      tile = at_ / kSplits;
      const unsigned index = at_ % kSplits;
      s.k0 = static_cast<int>(start(index));
      s.k1 = static_cast<int>(start(index + 1));
      part_ = at_;
      // Where parts meet there is none left, which ptxas must not see: it would serialise the products of one segment.
      at_ += kMeet ? gridDim.x : sm90::cluster_count();
    } else {
      tile = at_ / chunks_;
      const unsigned begin = tile * chunks_, stop = begin + chunks_;
      s.k0 = static_cast<int>(at_ - begin);
      s.k1 = static_cast<int>(min(end_, stop) - begin);
      at_ = begin + s.k1;
    }
    s.batch = 0;
    if (args_.gemm.batch > 1) {
      s.batch = static_cast<int>(tile / tiles_);
      tile -= s.batch * tiles_;
    }
    s.tile = static_cast<int>(tile);
    s.entry = args_.batch_a ? s.batch : 0;
    return true;
  }

  // Of all segments that are left.
  __device__ __forceinline__ int steps() const {
    SkinnyWork work = *this;
    SkinnySegment s;
    int sum = 0;
    while (work.take(s)) sum += s.k1 - s.k0;
    return sum;
  }

  // Of the segment taken last.
  __device__ __forceinline__ SkinnyShare share(const SkinnySegment& s) const {
    if constexpr (kSplits > 0) {
      const int index = static_cast<int>(part_ % kSplits);
      return {static_cast<int>(part_) - index, index, kSplits};
    }
    if (s.k1 - s.k0 == static_cast<int>(chunks_)) return {0, 0, 1};
    const unsigned begin = at_ - s.k1;
    const int first = static_cast<int>(owner(begin));
    return {first, static_cast<int>(range_) - first, static_cast<int>(owner(begin + chunks_ - 1)) - first + 1};
  }

 private:
  // The first step of K of a part, and the part that has a step of K.
  __device__ __forceinline__ unsigned start(unsigned part) const {
    return part * args_.share + min(part, static_cast<unsigned>(args_.extra));
  }
  __device__ __forceinline__ unsigned owner(unsigned x) const {
    const unsigned longer = args_.extra * (args_.share + 1u);
    return x < longer ? x / (args_.share + 1u) : args_.extra + (x - longer) / args_.share;
  }

  const GemmSm90SkinnyArgs& args_;
  const unsigned chunks_, tiles_;
  unsigned at_, end_, range_ = 0, part_ = 0;
};

}  // namespace tilewright
