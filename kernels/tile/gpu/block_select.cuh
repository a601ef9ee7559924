// SPDX-License-Identifier: MIT
// What a block finds together about tokens: the largest key, and where a choice ends among tokens that come in any order. Sums are of
// whole numbers, so that no order shows.
#pragma once

#include "tile/common/token_order.hpp"
#include "tile/gpu/atomics.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

using TokenKey = unsigned long long;

// Where a choice ends: tokens of at least `key` belong to it; `mass` is what it has up to there.
struct ChoiceEnd {
  TokenKey key;
  unsigned long long mass;
};

// The thread that was sought, and what those before it have; -1 is none.
struct ThreadBeyond {
  int thread;
  unsigned long long before;
};

// Shared memory, behind what reduce_threads() takes.
inline constexpr int kSelectWarps = kSelectThreads / kRowLanes, kBinWarps = kSelectBins / kRowLanes;
struct SelectShared {
  TokenKey largest[2][kSelectWarps];
  int reached[2];
  unsigned listed, members;
  unsigned warp_count[kBinWarps];
  unsigned long long warp_mass[kBinWarps];
  unsigned count[kSelectBins], mass_low[kSelectBins], mass_high[kSelectBins];
  unsigned count_to[kSelectBins];
  unsigned long long mass_to[kSelectBins];
  TokenKey member[kSelectThreads];
  unsigned long long member_mass[kSelectThreads];
  ChoiceEnd found;
  ThreadBeyond beyond;
  float named[kSelectWarps], enough;  // of reached_by_few()
};
static_assert(kRowSharedBytes + sizeof(SelectShared) <= kSelectSharedBytes);
__device__ __forceinline__ SelectShared& select_shared() {
  return *reinterpret_cast<SelectShared*>(dynamic_shared() + kRowSharedBytes);
}

__device__ __forceinline__ unsigned lane_xor_bits(unsigned x, unsigned distance) {
  return __builtin_bit_cast(unsigned, lane_xor(__builtin_bit_cast(float, x), distance));
}
__device__ __forceinline__ unsigned long long lane_xor_bits(unsigned long long x, unsigned distance) {
  return static_cast<unsigned long long>(lane_xor_bits(static_cast<unsigned>(x >> 32), distance)) << 32 |
         lane_xor_bits(static_cast<unsigned>(x), distance);
}
// What follows from the thread's number is found anew each time: AMD GPUs have no scalar registers to keep conditions in.
__device__ __forceinline__ unsigned select_thread() {
  return static_cast<unsigned>(anew(static_cast<int>(threadIdx.x)));
}
// The largest of `kLanes` neighbours, in each of them.
template <unsigned kLanes>
__device__ __forceinline__ TokenKey largest_of_lanes(TokenKey key) {
#pragma unroll
  for (unsigned distance = 1; distance < kLanes; distance *= 2) {
    const TokenKey other = lane_xor_bits(key, distance);
    key = other > key ? other : key;
  }
  return key;
}
// The largest of all threads, in each of them; of one key, or of two together.
template <int kKeys>
__device__ __forceinline__ void largest_keys(TokenKey (&key)[kKeys]) {
  static_assert(kKeys <= 2 && kSelectWarps <= kRowLanes);
  SelectShared& shared = select_shared();
  const unsigned me = select_thread();
#pragma unroll
  for (int k = 0; k < kKeys; ++k) key[k] = largest_of_lanes<kRowLanes>(key[k]);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kKeys; ++k) {
    if (me % kRowLanes == 0) shared.largest[k][me / kRowLanes] = key[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kKeys; ++k) key[k] = largest_of_lanes<kSelectWarps>(shared.largest[k][me % kSelectWarps]);
}
__device__ __forceinline__ TokenKey largest_key(TokenKey key) {
  TokenKey one[1] = {key};
  largest_keys(one);
  return one[0];
}

// Sums of all bins up to each one, of thread `bin`'s count and mass; threads behind the last bin have none.
__device__ __forceinline__ void sum_bins(unsigned count, unsigned long long mass) {
  SelectShared& shared = select_shared();
  const unsigned bin = select_thread();
  // Of 32 neighbours: at each distance those of the lower half are all before those of the upper.
  unsigned all_count = count;
  unsigned long long all_mass = mass;
#pragma unroll
  for (unsigned distance = 1; distance < kRowLanes; distance *= 2) {
    const unsigned other_count = lane_xor_bits(all_count, distance);
    const unsigned long long other_mass = lane_xor_bits(all_mass, distance);
    const bool upper = (bin & distance) != 0;
    count += upper ? other_count : 0, mass += upper ? other_mass : 0;
    all_count += other_count, all_mass += other_mass;
  }
  __syncthreads();
  if (bin < kSelectBins && bin % kRowLanes == 0)
    shared.warp_count[bin / kRowLanes] = all_count, shared.warp_mass[bin / kRowLanes] = all_mass;
  __syncthreads();
  if (bin < kSelectBins) {
#pragma unroll
    for (unsigned warp = 0; warp < kBinWarps; ++warp) {
      const bool before = warp < bin / kRowLanes;
      count += before ? shared.warp_count[warp] : 0, mass += before ? shared.warp_mass[warp] : 0;
    }
    shared.count_to[bin] = count, shared.mass_to[bin] = mass;
  }
  if (bin == 0) shared.reached[0] = shared.reached[1] = kSelectBins, shared.members = 0;
  __syncthreads();
}
// The first bin where these reach each of the limits; kSelectBins = none does. Once for a sum_bins(), or after reset_reached().
struct BinsReached {
  int of_count, of_mass;
  __device__ __forceinline__ int first() const { return of_count < of_mass ? of_count : of_mass; }
};
__device__ __forceinline__ void reset_reached() {
  __syncthreads();
  if (select_thread() == 0) select_shared().reached[0] = select_shared().reached[1] = kSelectBins;
  __syncthreads();
}
// `count` and `mass` stand before the first bin.
__device__ __forceinline__ BinsReached reach_bins(unsigned count, unsigned long long mass, const ChoiceLimits& limits) {
  SelectShared& shared = select_shared();
  const unsigned bin = select_thread();
  if (bin < kSelectBins) {
    const unsigned count_before = count + (bin == 0 ? 0 : shared.count_to[bin - 1]);
    const unsigned long long mass_before = mass + (bin == 0 ? 0 : shared.mass_to[bin - 1]);
    const bool counted = (bin == 0 || count_before < limits.count) && count + shared.count_to[bin] >= limits.count;
    const bool weighed = (bin == 0 || mass_before < limits.mass) && mass + shared.mass_to[bin] >= limits.mass;
    if (counted) shared.reached[0] = static_cast<int>(bin);
    if (weighed) shared.reached[1] = static_cast<int>(bin);
  }
  __syncthreads();
  return {shared.reached[0], shared.reached[1]};
}

// What threads before this one have, in their order, and what all have.
struct ThreadSums {
  unsigned long long before, all;
};
__device__ __forceinline__ ThreadSums sums_of_threads(unsigned long long mass) {
  SelectShared& shared = select_shared();
  const unsigned me = select_thread();
  unsigned long long before = 0, all = mass;
#pragma unroll
  for (unsigned distance = 1; distance < kRowLanes; distance *= 2) {
    const unsigned long long other = lane_xor_bits(all, distance);
    before += (me & distance) != 0 ? other : 0, all += other;
  }
  __syncthreads();
  if (me % kRowLanes == 0) shared.member_mass[me / kRowLanes] = all;
  __syncthreads();
  // Each of as many lanes has a warp's: a block runs this once or twice, and waits for instructions of which there are few.
  all = shared.member_mass[me % kSelectWarps];
  unsigned long long earlier = me % kSelectWarps < me / kRowLanes ? all : 0;
#pragma unroll
  for (unsigned distance = 1; distance < kSelectWarps; distance *= 2) {
    earlier += lane_xor_bits(earlier, distance), all += lane_xor_bits(all, distance);
  }
  return {before + earlier, all};
}
// The first of the threads that has more than `target` with those before it, in their order.
__device__ __forceinline__ ThreadBeyond first_beyond(unsigned long long mass, unsigned long long target) {
  SelectShared& shared = select_shared();
  const unsigned me = select_thread();
  const ThreadSums sums = sums_of_threads(mass);
  if (me == 0 && target >= sums.all) shared.beyond = {-1, sums.all};
  if (sums.before <= target && target - sums.before < mass) shared.beyond = {static_cast<int>(me), sums.before};
  __syncthreads();
  return shared.beyond;
}

// How many of each bin, and with what mass, are counted in shared memory; those of masses that nobody asks for are not.
__device__ __forceinline__ void clear_bins() {
  SelectShared& shared = select_shared();
  const unsigned bin = select_thread();
  __syncthreads();
  if (bin < kSelectBins) shared.count[bin] = shared.mass_low[bin] = shared.mass_high[bin] = 0;
  __syncthreads();
}
__device__ __forceinline__ void count_in_bin(unsigned bin, unsigned long long mass, bool weighs) {
  SelectShared& shared = select_shared();
  add_shared(&shared.count[bin], 1);
  if (!weighs) return;
  const auto low = static_cast<unsigned>(mass);
  const unsigned before = add_shared(&shared.mass_low[bin], low);
  const unsigned high = static_cast<unsigned>(mass >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) add_shared(&shared.mass_high[bin], high);
}
__device__ __forceinline__ void sum_counted() {
  SelectShared& shared = select_shared();
  const unsigned bin = select_thread();
  const bool there = bin < kSelectBins;
  __syncthreads();
  sum_bins(there ? shared.count[bin] : 0,
           there ? static_cast<unsigned long long>(shared.mass_high[bin]) << 32 | shared.mass_low[bin] : 0);
}

// Bins of equal width between the largest and the least finite value: digits of floats would put most values into a few. What is less
// than finite is in the last one.
template <int kBins = kSelectBins>
struct ValueBins {
  float most, factor;

  __device__ __forceinline__ ValueBins(float largest, float least) : most(largest) {
    factor = __fmul_rn(kBins * 0.999f, 1 / __fadd_rn(largest, -least));
  }
  // Whether they tell values apart.
  __device__ __forceinline__ bool serve() const { return factor > 0 && factor < 0x1p100f; }
  __device__ __forceinline__ unsigned of(float value) const {
    const float at = __fmul_rn(__fadd_rn(most, -value), factor), last = kBins - 1;
    return static_cast<unsigned>(at < last ? at : last);
  }
};
// Those of all threads' tokens.
template <int kBins = kSelectBins, class Each>
__device__ __forceinline__ ValueBins<kBins> bins_of_values(Each&& each) {
  // The inverse of the least finite one.
  float range[2] = {kLeastValue, kLeastValue};
  each([&](const auto& token) {
    const float value = token.value();
    range[0] = at_least(value, range[0]);
    if (value >= kLeastValue) range[1] = at_least(-value, range[1]);
  });
  reduce_threads<kSelectThreads>(range, [](float a, float b) { return at_least(a, b); });
  return {range[0], -range[1]};
}

// Candidates of a choice: value(), key(), which is of the value and tells all apart, and mass().
struct KeyedToken {
  TokenKey its;
  __device__ __forceinline__ float value() const { return key_value(its); }
  __device__ __forceinline__ TokenKey key() const { return its; }
  __device__ __forceinline__ unsigned long long mass() const { return 0; }
};

// The end among as many members as there are threads, listed in any order: each one finds what stands before it, with neighbours where
// there are fewer.
__device__ __forceinline__ ChoiceEnd rank_members(unsigned count, unsigned long long mass, const ChoiceLimits& limits,
                                                  bool weighs) {
  SelectShared& shared = select_shared();
  const unsigned me = select_thread();
  __syncthreads();
  const unsigned members = shared.members;
  unsigned share = 1;
  while (share < kRowLanes / 2 && members * share * 2 <= kSelectThreads) share *= 2;
  const unsigned which = me / share, last = me / kRowLanes * kRowLanes < members * share ? members : 0;
  const bool there = which < members;
  const TokenKey own = there ? shared.member[which] : 0;
  const unsigned long long own_mass = weighs && there ? shared.member_mass[which] : 0;
  unsigned before = 0;
  unsigned long long mass_before = 0;
  // Warps that have none of them wait.
#pragma unroll 4
  for (unsigned i = me % share; i < last; i += share) {
    const bool first = shared.member[i] > own;
    before += first ? 1 : 0;
    if (weighs) mass_before += first ? shared.member_mass[i] : 0;
  }
#pragma unroll 1
  for (unsigned distance = 1; distance < share; distance *= 2) {
    before += lane_xor_bits(before, distance), mass_before += lane_xor_bits(mass_before, distance);
  }
  count += before, mass += mass_before;
  const bool counted = count < limits.count && count + 1 >= limits.count;
  const bool weighed = weighs && mass < limits.mass && mass + own_mass >= limits.mass;
  const TokenKey end = largest_key(there && (counted || weighed) ? own : 0);
  if (own == end && there && me % share == 0) shared.found = {end, mass + own_mass};
  __syncthreads();
  return shared.found;
}

// each(body) calls body(token) for all candidates, in any order; before these stand `count` tokens with `mass`, less than the limits.
// Unless `weighs`, nobody asks for masses.
template <class Each>
__device__ __forceinline__ ChoiceEnd find_end(unsigned count, unsigned long long mass, const ChoiceLimits& limits,
                                              bool weighs, Each&& each) {
  SelectShared& shared = select_shared();
  constexpr TokenKey kAllOfThem = 1;

  // By their values first.
  const ValueBins<> values = bins_of_values(each);
  const int by_value = anew(values.serve() ? 1 : 0);
  int end = kSelectBins;  // the bin that is left
  if (by_value != 0) {
    clear_bins();
    each([&](const auto& token) { count_in_bin(values.of(token.value()), weighs ? token.mass() : 0, weighs); });
    sum_counted();
    end = reach_bins(count, mass, limits).first();
    if (end == kSelectBins) return {kAllOfThem, mass + shared.mass_to[kSelectBins - 1]};
    if (end > 0) count += shared.count_to[end - 1], mass += shared.mass_to[end - 1];
  }
  const auto is_left = [&](const auto& token) {
    return by_value == 0 || values.of(token.value()) == static_cast<unsigned>(end);
  };
  if (by_value != 0 && shared.count[end] <= kSelectThreads) {
    each([&](const auto& token) {
      if (!is_left(token)) return;
      const unsigned at = add_shared(&shared.members, 1);
      shared.member[at] = token.key();
      if (weighs) shared.member_mass[at] = token.mass();
    });
    return rank_members(count, mass, limits, weighs);
  }

  // What is left has keys between these two: the largest, and the inverse of the least.
  TokenKey ends[2] = {0, 0};
  each([&](const auto& token) {
    if (!is_left(token)) return;
    const TokenKey key = token.key();
    ends[0] = key > ends[0] ? key : ends[0], ends[1] = ~key > ends[1] ? ~key : ends[1];
  });
  largest_keys(ends);

  // By digits, from where keys differ on.
  const TokenKey most = ends[0], differ = most ^ ~ends[1];
  int low = 0, bits = 8;
  for (int step = 32; step > 0; step /= 2) low += low + step <= 56 && differ >> (low + step + 7) != 0 ? step : 0;
  TokenKey prefix = low + bits < 64 ? most >> (low + bits) : 0;
#pragma unroll 1
  while (true) {
    const unsigned last = (1u << bits) - 1;
    clear_bins();
    // The best digit has the first bin.
    each([&](const auto& token) {
      const TokenKey key = token.key();
      if (key > most || ~key > ends[1] || (low + bits < 64 && key >> (low + bits) != prefix)) return;
      count_in_bin(last - (static_cast<unsigned>(key >> low) & last), weighs ? token.mass() : 0, weighs);
    });
    sum_counted();
    end = reach_bins(count, mass, limits).first();
    if (end == kSelectBins) return {kAllOfThem, mass + shared.mass_to[kSelectBins - 1]};
    prefix = prefix << bits | (last - static_cast<unsigned>(end));
    if (low == 0 || shared.count[end] == 1) return {prefix << low, mass + shared.mass_to[end]};
    if (end > 0) count += shared.count_to[end - 1], mass += shared.mass_to[end - 1];
    bits = low < 8 ? low : 8;
    low -= bits;
  }
}

}  // namespace tilewright
