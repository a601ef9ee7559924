// SPDX-License-Identifier: MIT
// moe_routing_gpu: a few lanes share a token, whose logits stay in their registers. Each lane keeps its four best in order, as keys that
// hold value and expert, and looks again where all four were chosen; the chosen follow one after another by exchanges between lanes.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

// Larger ones are better: the value as a number of two's complement, where zeros of both signs are equal, above what remains of the
// expert's number. kNone is worse than any value's, also when an expert's number is taken off.
template <bool kWide>
struct RouterKey {
  using Type = int;
  static constexpr int kNone = -0x7FFF0000;
  __device__ __forceinline__ static int of(float value, int expert) {
    return ordered(value) + (0xFFFF - expert);
  }
  __device__ __forceinline__ static int expert(int key) { return 0xFFFF - (key & 0xFFFF); }
  __device__ __forceinline__ static int ordered(float value) {
    const int bits = __builtin_bit_cast(int, value), sign = bits >> 31;
    return ((bits & 0x7FFFFFFF) ^ sign) - sign;
  }
  __device__ __forceinline__ static int exchange(int key, unsigned distance) {
    return __builtin_bit_cast(int, lane_xor(__builtin_bit_cast(float, key), distance));
  }
};
template <>
struct RouterKey<true> {
  using Type = long long;
  static constexpr long long kNone = -0x7FFF0000LL * 0x100000000LL;
  __device__ __forceinline__ static long long of(float value, int expert) {
    return static_cast<long long>(static_cast<unsigned long long>(RouterKey<false>::ordered(value)) << 32 |
                                  (0xFFFFu - static_cast<unsigned>(expert)));
  }
  __device__ __forceinline__ static int expert(long long key) { return 0xFFFF - static_cast<int>(key & 0xFFFF); }
  __device__ __forceinline__ static long long exchange(long long key, unsigned distance) {
    const auto high = static_cast<unsigned>(RouterKey<false>::exchange(static_cast<int>(key >> 32), distance));
    const auto low = static_cast<unsigned>(RouterKey<false>::exchange(static_cast<int>(key), distance));
    return static_cast<long long>(static_cast<unsigned long long>(high) << 32 | low);
  }
};

// The better one first.
template <class Key>
__device__ __forceinline__ void order(Key& a, Key& b) {
  const Key better = a > b ? a : b, other = a > b ? b : a;
  a = better, b = other;
}
// Four in order.
template <class Key>
__device__ __forceinline__ void order_four(Key (&k)[4]) {
  order(k[0], k[1]), order(k[2], k[3]);
  order(k[0], k[2]), order(k[1], k[3]);
  order(k[1], k[2]);
}
// The best four of both, in order.
template <class Key>
__device__ __forceinline__ void merge_four(Key (&best)[4], const Key (&more)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) best[i] = best[i] > more[3 - i] ? best[i] : more[3 - i];
  order(best[0], best[2]), order(best[1], best[3]);
  order(best[0], best[1]), order(best[2], best[3]);
}

inline constexpr float kWorstLogit = __builtin_bit_cast(float, 0xFF800000u);
__device__ __forceinline__ float larger(float a, float b) { return a > b ? a : b; }  // of NaN the second

// e^x
__device__ __forceinline__ float router_exp(float x) { return exp2_approx(__fmul_rn(x, 1.44269504f)); }
__device__ __forceinline__ float sigmoid_score(float x) {
  return reciprocal_approx(__fadd_rn(1.0f, router_exp(-x)));
}
__device__ __forceinline__ float sqrt_softplus_score(float x) {
  const float t = router_exp(-fabsf(x)), s = __fmul_rn(t, reciprocal_approx(__fadd_rn(2.0f, t)));
  const float square = __fmul_rn(s, s);
  float series = kLogSeries[7];
#pragma unroll
  for (int i = 6; i >= 0; --i) series = __fmaf_rn(series, square, kLogSeries[i]);
  return square_root(__fmaf_rn(__fadd_rn(s, s), series, larger(x, 0.0f)));
}

// One lane's part of a token.
template <MoeRoutingGpuConfig kConfig>
struct RouterLane {
  static constexpr int kLanes = kConfig.lanes, kGroupLanes = kConfig.group_lanes, kSlots = kConfig.slots;
  using Keys = RouterKey<kConfig.wide>;
  using Key = typename Keys::Type;

  const MoeRoutingArgs& args;
  int lane, first;    // first: expert of slot 0
  int there;          // experts from there to the end of the lane's group, 0 and below = none
  bool open = true;   // its group may be chosen from
  float most, sum;    // softmax's
  float v[kSlots];    // logits, then what the choice is among
  Key best[4];        // of what was not chosen; less `first`

  // Experts from the lane's first to a slot's.
  static constexpr int offset(int slot) { return slot / kRowPiece * kRowPiece * kGroupLanes + slot % kRowPiece; }
  __device__ __forceinline__ bool has(int slot) const { return kConfig.whole || offset(slot) < there; }
  // body(slot), with constants as slots.
  template <class Body>
  __device__ __forceinline__ static void for_slots(Body&& body) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) body(i);
  }
  template <int kFrom, int kTo, class Merge>
  __device__ __forceinline__ static float over_lanes(float x, Merge&& merge) {
#pragma unroll
    for (int distance = kFrom; distance < kTo; distance *= 2) x = merge(x, lane_xor(x, static_cast<unsigned>(distance)));
    return x;
  }

  __device__ __forceinline__ RouterLane(const MoeRoutingArgs& a, int of_token) : args(a), lane(of_token) {
    const int group = lane / kGroupLanes, before = lane % kGroupLanes * kRowPiece;
    first = group * a.group_experts + before;
    there = group < a.groups ? a.group_experts - before : 0;
  }

  __device__ __forceinline__ static int piece_count(int left) {
    return kConfig.whole ? kRowPiece : left <= 0 ? 0 : left < kRowPiece ? left : kRowPiece;
  }
  __device__ __forceinline__ void load(const char* row) {
#pragma unroll
    for (int j = 0; j < kSlots / kRowPiece; ++j) {
      Piece p;
      load_piece<kConfig.x, kConfig.whole>(row, args.x, first + offset(j * kRowPiece),
                                           piece_count(there - offset(j * kRowPiece)), p);
      for_elements([&](int i) { v[j * kRowPiece + i] = has(j * kRowPiece + i) ? p.v[i] : kWorstLogit; });
    }
  }

  __device__ __forceinline__ void find_softmax() {
    most = kLeastValue, sum = 0;
    for_slots([&](int i) { most = larger(v[i], most); });
    most = over_lanes<1, kLanes>(most, larger);
    for_slots([&](int i) { sum = __fadd_rn(sum, router_exp(__fadd_rn(v[i], -most))); });
    sum = over_lanes<1, kLanes>(sum, sum_of);
  }
  __device__ __forceinline__ float score(float x) const {
    if (args.score == RouterScore::kSigmoid) return sigmoid_score(x);
    if (args.score == RouterScore::kSqrtSoftplus) return sqrt_softplus_score(x);
    return __fmul_rn(router_exp(__fadd_rn(x, -most)), reciprocal_approx(sum));
  }

  // Scores with their bias take the logits' place.
  __device__ __forceinline__ void score_all() {
    if (args.score == RouterScore::kSoftmax) {
      const float by = reciprocal_approx(sum);
      for_slots([&](int i) { v[i] = __fmul_rn(router_exp(__fadd_rn(v[i], -most)), by); });
    } else if (args.score == RouterScore::kSigmoid) {
      for_slots([&](int i) { v[i] = sigmoid_score(v[i]); });
    } else {
      for_slots([&](int i) { v[i] = sqrt_softplus_score(v[i]); });
    }
    if (args.bias != nullptr) {
#pragma unroll
      for (int j = 0; j < kSlots / kRowPiece; ++j) {
        Piece p;
        load_piece<DType::kNone>(static_cast<const char*>(args.bias), args.bias_dtype, first + offset(j * kRowPiece),
                                 piece_count(there - offset(j * kRowPiece)), p);
        for_elements([&](int i) { v[j * kRowPiece + i] = __fadd_rn(v[j * kRowPiece + i], p.v[i]); });
      }
    }
    for_slots([&](int i) { v[i] = has(i) ? v[i] : kWorstLogit; });
  }

  // NaN is as bad as minus infinity. It is rare: a sum of all tells.
  __device__ __forceinline__ void drop_nan() {
    float all = 0;
    for_slots([&](int i) { all = __fadd_rn(all, v[i]); });
    if (all == all) return;
    for_slots([&](int i) { v[i] = v[i] == v[i] ? v[i] : kWorstLogit; });
  }

  // Whether the lane's group is among the best.
  __device__ __forceinline__ void choose_groups() {
    float one = kWorstLogit, two = kWorstLogit;
    for_slots([&](int i) {
      two = larger(v[i] < one ? v[i] : one, two);
      one = larger(v[i], one);
    });
#pragma unroll
    for (int distance = 1; distance < kGroupLanes; distance *= 2) {
      const float other_one = lane_xor(one, static_cast<unsigned>(distance));
      const float other_two = lane_xor(two, static_cast<unsigned>(distance));
      two = larger(one < other_one ? one : other_one, larger(two, other_two));
      one = larger(one, other_one);
    }
    const bool sums = args.group_score == GroupScore::kTwoLargest && args.group_experts > 1;
    const float given = sums ? __fadd_rn(one, two) : one, mine = given == given ? given : kWorstLogit;
    int better = 0;
#pragma unroll
    for (int distance = 1; distance < kLanes / kGroupLanes; ++distance) {
      const float other = lane_xor(mine, static_cast<unsigned>(distance * kGroupLanes));
      const int group = lane / kGroupLanes;
      better += other > mine || (other == mine && (group ^ distance) < group) ? 1 : 0;
    }
    open = better < args.topk_groups;
  }

  // The best four of those below `below`; kAll: of all.
  template <bool kAll>
  __device__ __forceinline__ void find_best(Key below) {
#pragma unroll
    for (int j = 0; j < kSlots; j += 4) {
      Key four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Key key = Keys::of(v[j + i], offset(j + i));
        four[i] = has(j + i) && (kAll || key < below) ? key : Keys::kNone;
      }
      order_four(four);
      if (j == 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i) best[i] = four[i];
      } else {
        merge_four(best, four);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = open ? best[i] : Keys::kNone;
  }

  // chosen(j, expert) of the j-th best, in every lane.
  template <class Chosen>
  __device__ __forceinline__ void choose(Chosen&& chosen) {
    find_best<true>(Keys::kNone);
    int taken = 0;
#pragma unroll 1
    for (int j = 0; j < args.k; ++j) {
      const Key mine = best[0] - first;
      Key all = mine;
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        const Key other = Keys::exchange(all, static_cast<unsigned>(distance));
        all = other > all ? other : all;
      }
      chosen(j, Keys::expert(all));
      if (all != mine) continue;
      const Key last = best[0];
      best[0] = best[1], best[1] = best[2], best[2] = best[3], best[3] = Keys::kNone;
      if (++taken == 4) {
        find_best<false>(last);
        taken = 0;
      }
    }
  }
};

template <MoeRoutingGpuConfig kConfig>
__device__ __forceinline__ void moe_routing_gpu(const MoeRoutingArgs& args) {
  constexpr int kLanes = kConfig.lanes, kKept = kConfig.kept, kTokens = kRouterThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll 1
  for (long long begin = static_cast<long long>(blockIdx.x) * kTokens; begin < args.tokens;
       begin += args.grid * kTokens) {
    // Lanes of tokens behind the last one take that one: they meet the others.
    const long long mine = begin + static_cast<int>(threadIdx.x) / kLanes;
    const bool there = mine < args.tokens;
    const long long token = there ? mine : args.tokens - 1;
    const DType type = kConfig.x == DType::kNone ? args.x : kConfig.x;
    const char* const row = static_cast<const char*>(args.logits) + token * args.stride_logits * dtype_bits(type) / 8;

    RouterLane<kConfig> part(args, lane);
    part.load(row);
    if (needs_softmax(args)) part.find_softmax();
    if constexpr (kConfig.wide) {
      if (args.scored) part.score_all();
    }
    part.drop_nan();
    if (args.groups > 1) part.choose_groups();

    // The j-th is kept by lane j, and so on round.
    int expert[kKept];
#pragma unroll
    for (int s = 0; s < kKept; ++s) expert[s] = 0;
    part.choose([&](int j, int chosen) {
#pragma unroll
      for (int s = 0; s < kKept; ++s) expert[s] = j == lane + s * kLanes ? chosen : expert[s];
    });

    // Scores of the chosen, from their logits.
    float weight[kKept];
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      weight[s] = kWorstLogit;
      if (lane + s * kLanes >= args.k) continue;
      Piece one;
      load_piece<kConfig.x>(row, args.x, expert[s], 1, one);
      weight[s] = one.v[0];
    }
    if (args.score == RouterScore::kSoftmax && !needs_softmax(args)) {
      part.most = kLeastValue, part.sum = 1;
#pragma unroll
      for (int s = 0; s < kKept; ++s) part.most = larger(weight[s], part.most);
      part.most = part.template over_lanes<1, kLanes>(part.most, larger);
    }
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      if (lane + s * kLanes >= args.k) continue;
      weight[s] = part.score(weight[s]);
      sum = __fadd_rn(sum, weight[s]);
    }
    float by = args.scale;
    if (args.renormalise) {
      sum = part.template over_lanes<1, kLanes>(sum, sum_of);
      by = __fmul_rn(by, reciprocal_approx(__fadd_rn(sum, kLeastRouterSum)));
    }
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      const int j = lane + s * kLanes;
      if (!there || j >= args.k) continue;
      const int id = local_expert(args, expert[s]);
      args.ids[token * args.stride_ids + j] = id;
      args.weights[token * args.stride_weights + j] = id < 0 ? 0.0f : __fmul_rn(weight[s], by);
    }
  }
}

}  // namespace tilewright
