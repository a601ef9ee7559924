// SPDX-License-Identifier: MIT
// How gemm_sm90_skinny cuts its work, and how blocks that share a tile add their sums.
#pragma once

#include "gemm/sm90/gemm_sm90_skinny_args.hpp"
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/relaxed.cuh"

namespace tilewright {

// Part of K of one tile.
struct SkinnySegment {
  int tile, batch;
  int k0, k1;  // in tiles of K
};
// It is part `index` of `count` of that tile, which begin with part `first` of all. Sums are exchanged by groups of eight
// tokens: who computes this part completes the groups [first_group, last_group).
struct SkinnyShare {
  int first, index, count, first_group, last_group;
};

// The segments of a cluster. splits > 0: every tile in so many parts, which each complete an equal share of the tokens.
// splits = 0: the tiles' K one after another, cut into one piece a cluster; who has a tile's first part completes it. That
// is a cluster's last segment, and by then the other part, the first segment of a cluster that began earlier, is done.
class SkinnyWork {
 public:
  __device__ __forceinline__ SkinnyWork(const GemmSm90SkinnyArgs& args, unsigned tile_columns, unsigned chunks)
      : args_(args), chunks_(chunks), tiles_((static_cast<unsigned>(args.gemm.n) + tile_columns - 1) / tile_columns) {
    if (args.splits > 0) {
      at_ = sm90::cluster_id();
      end_ = tiles_ * static_cast<unsigned>(args.gemm.batch) * args.splits;
    } else {
      range_ = sm90::cluster_count() - 1 - sm90::cluster_id();
      at_ = start(range_);
      end_ = start(range_ + 1);
    }
  }

  __device__ __forceinline__ bool take(SkinnySegment& s) {
    if (at_ >= end_) return false;
    unsigned tile;
    if (args_.splits > 0) {
      tile = args_.splits == 1 ? at_ : at_ / args_.splits;
      const unsigned index = at_ - tile * args_.splits;
      s.k0 = static_cast<int>(start(index));
      s.k1 = static_cast<int>(start(index + 1));
      part_ = at_;
      at_ += sm90::cluster_count();
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
    return true;
  }

  // Of the segment taken last.
  __device__ __forceinline__ SkinnyShare share(const SkinnySegment& s) const {
    const int groups = static_cast<int>((args_.gemm.m + 7) / 8);
    SkinnyShare share{0, 0, 1, 0, groups};
    if (args_.splits == 1 || s.k1 - s.k0 == static_cast<int>(chunks_)) return share;
    if (args_.splits > 0) {
      share.index = static_cast<int>(part_ % args_.splits);
      share.first = static_cast<int>(part_) - share.index;
      share.count = args_.splits;
      share.first_group = share.index * groups / args_.splits;
      share.last_group = (share.index + 1) * groups / args_.splits;
    } else {
      const unsigned begin = at_ - s.k1;
      share.first = static_cast<int>(owner(begin));
      share.index = static_cast<int>(range_) - share.first;
      share.count = static_cast<int>(owner(begin + chunks_ - 1)) - share.first + 1;
      if (share.index > 0) share.last_group = 0;
    }
    return share;
  }

 private:
  // The first tile of K of a part, and the part that has a tile of K.
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

// Sums on their way through the workspace carry their own "is there": a word of zero is not, and what is written is never
// zero. So there is no flag, and no fence between sums and flag. Who takes a word leaves zero.
__device__ __forceinline__ unsigned skinny_encode(float x) {
  const unsigned bits = __float_as_uint(x);
  return bits == 0xFFFFFFFFu ? 0x80000000u : ~bits;  // the one code that would be zero is a NaN
}
__device__ __forceinline__ unsigned skinny_encode(int x) { return static_cast<unsigned>(x) ^ 0x80000000u; }
__device__ __forceinline__ void skinny_add(float& sum, unsigned code) { sum += __uint_as_float(~code); }
__device__ __forceinline__ void skinny_add(int& sum, unsigned code) { sum += static_cast<int>(code ^ 0x80000000u); }

template <class Sum>
__device__ __forceinline__ void skinny_send(uint4* to, const Sum* x) {
  sm90::store_relaxed(to, {skinny_encode(x[0]), skinny_encode(x[1]), skinny_encode(x[2]), skinny_encode(x[3])});
}
__device__ __forceinline__ bool skinny_is_there(uint4 v) { return v.x != 0 && v.y != 0 && v.z != 0 && v.w != 0; }

}  // namespace tilewright
