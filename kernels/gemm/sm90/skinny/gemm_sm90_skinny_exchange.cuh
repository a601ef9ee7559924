// SPDX-License-Identifier: MIT
// How blocks of gemm_sm90_skinny that share a tile add their sums: through the workspace, or through the shared memory of a cluster.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny_work.cuh"
#include "tile/sm90/fresh_thread.cuh"
#include "tile/sm90/relaxed.cuh"
#include "tile/sm90/remote_store.cuh"

namespace tilewright {

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

// A thread's sums of a part of the rows, four a group of eight tokens.
template <GemmSm90SkinnyConfig kConfig>
class GemmSm90SkinnyExchange {
 public:
  static constexpr int kGroups = kConfig.tokens / 8, kThreads = kConfig.warpgroups * 128;

  __device__ GemmSm90SkinnyExchange(const GemmSm90SkinnyArgs& args, int block) : args_(args), block_(block) {}

  template <class Sum, class Wanted>
  __device__ __forceinline__ void send(const Sum (&sum)[kConfig.tokens / 2], int part, const SkinnyShare& s,
                                       const Wanted& wanted) const {
    uint4* const to = slot(s.first + s.index, part);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (wanted(g) && g * 8 < args_.gemm.m) skinny_send(to + g * kThreads, &sum[4 * g]);
    }
  }

  // The groups [first, first + kOwn) of the kSplits - 1 other parts, asked for all at once, added in the order of the parts.
  template <int kSplits, int kOwn, class Sum>
  __device__ __forceinline__ void add(Sum (&own)[4 * kOwn], int part, const SkinnyShare& s, int first) const {
    uint4* from[kSplits - 1];
#pragma unroll
    for (int i = 0; i < kSplits - 1; ++i) from[i] = slot(s.first + i + (i >= s.index), part) + first * kThreads;
    take<kSplits - 1, kOwn>(&own[0], from, first);
  }
  // All groups of all other parts; this one is the first.
  template <class Sum>
  __device__ __forceinline__ void add_all(Sum (&sum)[kConfig.tokens / 2], int part, const SkinnyShare& s) const {
    constexpr int kAtOnce = kGroups < 8 ? kGroups : 8;
#pragma unroll 1
    for (int other = 1; other < s.count; ++other) {
      uint4* const base = slot(s.first + other, part);
#pragma unroll
      for (int g = 0; g < kGroups; g += kAtOnce) {
        uint4* const from[1] = {base + g * kThreads};
        take<1, kAtOnce>(&sum[4 * g], from, g);
      }
    }
  }

 private:
  // [group][thread] of a part of the rows of a part of K; the slots of a cluster's blocks lie side by side.
  __device__ __forceinline__ uint4* slot(int index, int part) const {
    const int64 bytes = gemm_sm90_skinny_slot_bytes(kConfig);
    char* const base = static_cast<char*>(args_.gemm.workspace);
    // Made anew each time: kept over all tiles, addresses of every way to share would not leave registers for sums.
    const unsigned thread = sm90::fresh_thread();
    return reinterpret_cast<uint4*>(base + (static_cast<int64>(index) * kConfig.cluster + block_) * bytes) +
           part * kGroups * kThreads + thread;
  }

  // Adds `kCount` groups, of which the first is group `first`, from each of kOthers places, and leaves zeros there. What
  // has not come is asked for again all at once: one by one, each would take the way to the second level of cache.
  template <int kOthers, int kCount, class Sum>
  __device__ __forceinline__ void take(Sum* sum, uint4* const (&from)[kOthers], int first) const {
    uint4 v[kOthers][kCount] = {};
    bool missing = true;
    while (missing) {
      missing = false;
#pragma unroll
      for (int i = 0; i < kOthers * kCount; ++i) {
        uint4& word = v[i / kCount][i % kCount];
        const bool wanted = (first + i % kCount) * 8 < args_.gemm.m;
        if (wanted && !skinny_is_there(word)) word = sm90::load_relaxed(from[i / kCount] + i % kCount * kThreads);
      }
#pragma unroll
      for (int i = 0; i < kOthers * kCount; ++i) {
        const bool wanted = (first + i % kCount) * 8 < args_.gemm.m;
        missing |= wanted && !skinny_is_there(v[i / kCount][i % kCount]);
      }
    }
#pragma unroll
    for (int o = 0; o < kOthers; ++o) {
#pragma unroll
      for (int g = 0; g < kCount; ++g) {
        if ((first + g) * 8 >= args_.gemm.m) continue;
        from[o][g * kThreads] = {0, 0, 0, 0};
        skinny_add(sum[4 * g], v[o][g].x);
        skinny_add(sum[4 * g + 1], v[o][g].y);
        skinny_add(sum[4 * g + 2], v[o][g].z);
        skinny_add(sum[4 * g + 3], v[o][g].w);
      }
    }
  }

  const GemmSm90SkinnyArgs& args_;
  const int block_;
};

// The same where the parts of a tile are the blocks of a cluster: a part sends each group of tokens to the part that completes
// it. What comes counts at that one's barrier.
template <GemmSm90SkinnyConfig kConfig>
class GemmSm90SkinnyMeeting {
 public:
  static constexpr int kGroups = kConfig.tokens / 8, kThreads = kConfig.warpgroups * 128;
  static constexpr int kSplits = kConfig.splits, kOwn = gemm_sm90_skinny_own_groups(kConfig);
  static constexpr int kStride = gemm_sm90_skinny_own_stride(kConfig);
  static constexpr int kParts = kConfig.rows / 64 / kConfig.warpgroups;

  // `sums`: [other part][part of the rows][own group][thread], each of four sums of a thread.
  __device__ GemmSm90SkinnyMeeting(const GemmSm90SkinnyArgs& args, uint4* sums, sm90::Barrier& landed)
      : args_(args), sums_(sums), landed_(landed) {}

  // By one thread, before the cluster meets.
  __device__ __forceinline__ void expect(int index) const {
    sm90::init(landed_, 1);
    int groups = 0;
    if (index % kStride == 0) {
      groups = (static_cast<int>(args_.gemm.m) + 7) / 8 - index / kStride * kOwn;
      groups = max(0, min(groups, kOwn));
    }
    sm90::arrive_expect_bytes(landed_, (kSplits - 1) * kParts * groups * kThreads * static_cast<int>(sizeof(uint4)));
  }
  template <class Sum>
  __device__ __forceinline__ void send(const Sum (&sum)[kConfig.tokens / 2], int part, int index) const {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int to = g / kOwn * kStride;
      if (to == index || g * 8 >= args_.gemm.m) continue;
      sm90::store_remote(place(index - (index > to), part, g % kOwn), landed_, static_cast<unsigned>(to),
                         {word(sum[4 * g]), word(sum[4 * g + 1]), word(sum[4 * g + 2]), word(sum[4 * g + 3])});
    }
  }
  // Added in the order of the parts. `first`: of the own groups.
  template <class Sum>
  __device__ __forceinline__ void add(Sum (&own)[4 * kOwn], int part, int first) const {
    sm90::wait(landed_, 0);
#pragma unroll
    for (int other = 0; other < kSplits - 1; ++other) {
#pragma unroll
      for (int g = 0; g < kOwn; ++g) {
        if ((first + g) * 8 >= args_.gemm.m) continue;
        const uint4 v = *place(other, part, g);
        add_word(own[4 * g], v.x);
        add_word(own[4 * g + 1], v.y);
        add_word(own[4 * g + 2], v.z);
        add_word(own[4 * g + 3], v.w);
      }
    }
  }

 private:
  __device__ __forceinline__ uint4* place(int other, int part, int group) const {
    return sums_ + ((other * kParts + part) * kOwn + group) * kThreads + sm90::fresh_thread();
  }
  __device__ __forceinline__ static unsigned word(float x) { return __float_as_uint(x); }
  __device__ __forceinline__ static unsigned word(int x) { return static_cast<unsigned>(x); }
  __device__ __forceinline__ static void add_word(float& sum, unsigned v) { sum += __uint_as_float(v); }
  __device__ __forceinline__ static void add_word(int& sum, unsigned v) { sum += static_cast<int>(v); }

  const GemmSm90SkinnyArgs& args_;
  uint4* const sums_;
  sm90::Barrier& landed_;
};

}  // namespace tilewright
