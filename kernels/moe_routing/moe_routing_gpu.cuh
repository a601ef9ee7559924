// SPDX-License-Identifier: MIT
// moe_routing_gpu: a few lanes share a token, whose logits stay in their registers, or are read again. Keys hold value and expert. Of a few,
// each lane keeps its four or eight best in order, and lanes merge theirs; on NVIDIA GPUs a sieve finds most of them. Else each keeps four and looks again where all of them were chosen; the
// chosen follow one after another by exchanges between lanes.
#pragma once

#include "moe_routing/router_keys_gpu.cuh"
#include "moe_routing/router_scores.cuh"
#include "tile/gpu/row.cuh"
#if !defined(__AMDGCN__)
#include "moe_routing/router_exchange.cuh"
#include "moe_routing/router_sieve.cuh"
#include "moe_routing/router_values.cuh"
#include "moe_routing/router_words.cuh"
#endif

namespace tilewright {

// AMD GPUs, whose comparisons take scalar registers, have none to hold logits beside keys of 64 bits.
#if defined(__AMDGCN__)
inline constexpr bool kHoldsBesideWide = false;
#else
inline constexpr bool kHoldsBesideWide = true;
#endif

// One lane's part of a token.
template <MoeRoutingGpuConfig kConfig>
struct RouterLane {
  static constexpr int kLanes = kConfig.lanes, kGroupLanes = kConfig.group_lanes, kSlots = kConfig.slots;
  static constexpr int kPieces = kSlots / kRowPiece;
  static constexpr bool kHoldsWords = kConfig.sieve > 0 && !kConfig.wide;  // logits as they lie, elsewhere
  static constexpr bool kHolds = kConfig.x != DType::kNone && (kHoldsBesideWide || !kConfig.wide) && !kHoldsWords;
  static constexpr int kTogether = kHolds ? 8 : 1;  // groups that are asked for at once
  using Keys = RouterKey<kConfig.wide>;
  using Key = typename Keys::Type;

  const MoeRoutingArgs& args;
  const char* row;               // of logits
  int lane, first;               // first: expert of slot 0
  int there;                     // experts from there to the end of the lane's group, 0 and below = none
  bool open = true;              // its group may be chosen from
  float most, by;                // softmax's: the largest, and 1 / sum
  float v[kHolds ? kSlots : 1];  // logits, then what the choice is among
  static constexpr int kBest = kConfig.few == 8 && kConfig.sieve == 0 ? 8 : 4;
  Key best[kBest];  // of what was not chosen; less `first`

  // Experts from the lane's first to a slot's.
  __device__ __forceinline__ static constexpr int offset(int slot) {
    return slot / kRowPiece * kRowPiece * kGroupLanes + slot % kRowPiece;
  }
  __device__ __forceinline__ const MoeRoutingArgs& given() const { return anew(args); }
  __device__ __forceinline__ bool has(int slot) const { return kConfig.whole || offset(slot) < there; }
  template <class Merge>
  __device__ __forceinline__ static float over_lanes(float x, Merge&& merge) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) x = merge(x, lane_xor(x, static_cast<unsigned>(distance)));
    return x;
  }

  __device__ __forceinline__ RouterLane(const MoeRoutingArgs& a, const char* logits, int of_token)
      : args(a), row(logits), lane(of_token) {
    const int group = lane / kGroupLanes, before = lane % kGroupLanes * kRowPiece;
    first = group * a.group_experts + before;
    there = group < a.groups ? a.group_experts - before : 0;
  }

  // A piece of the logits, or of the biases.
  template <DType kType, bool kWhole>
  __device__ __forceinline__ void load(const char* from, DType dtype, int j, Piece& p) const {
    const int left = there - offset(j * kRowPiece);
    const int count = kWhole ? kRowPiece : left <= 0 ? 0 : left < kRowPiece ? left : kRowPiece;
    load_piece<kType, kWhole>(from, dtype, first + offset(j * kRowPiece), count, p);
  }
  // Logits that kernels in front may still write.
  __device__ __forceinline__ void fetch() const {
    if constexpr (kConfig.whole) {
#pragma unroll
      for (int j = 0; j < kPieces; ++j) fetch_ahead(row + (first + offset(j * kRowPiece)) * dtype_bits(kConfig.x) / 8);
    }
  }
  // Nothing is as bad as minus infinity.
  __device__ __forceinline__ void load_logits(int j, Piece& p) const {
    load<kConfig.x, kConfig.whole>(row, given().x, j, p);
    for_elements([&](int i) { p.v[i] = has(j * kRowPiece + i) ? p.v[i] : kWorstLogit; });
  }
  // body(j, piece) of logits, or of what the choice is among: of those that are held with constants as j.
  template <bool kScored, class Body>
  __device__ __forceinline__ void each(Body&& body) const {
    if constexpr (kHolds) {
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        Piece p;
        for_elements([&](int i) { p.v[i] = v[j * kRowPiece + i]; });
        body(j, p);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < kPieces; ++j) {
        Piece p;
        load_logits(j, p);
        if constexpr (kScored) score_piece(j, p);
        body(j, p);
      }
    }
  }

  __device__ __forceinline__ void find_softmax() {
    most = kLeastValue;
    float sum = 0;
    each<false>([&](int, const Piece& p) { most = at_least(of_pairs(p, at_least), most); });
    most = over_lanes(most, [](float a, float b) { return at_least(a, b); });
    each<false>([&](int, const Piece& p) {
      Piece e;
      for_elements([&](int i) { e.v[i] = router_exp(__fadd_rn(p.v[i], -most)); });
      sum = __fadd_rn(sum, of_pairs(e, sum_of));
    });
    by = reciprocal_approx(over_lanes(sum, sum_of));
  }
  __device__ __forceinline__ float score(float x) const {
    if (score_kind() == RouterScore::kSigmoid) return sigmoid_score(x);
    if (score_kind() == RouterScore::kSqrtSoftplus) return sqrt_softplus_score(x);
    return __fmul_rn(router_exp(__fadd_rn(x, -most)), by);
  }

  // NaN is as bad as minus infinity, too.
  __device__ __forceinline__ static float number(float x) { return x == x ? x : kWorstLogit; }
  // What the choice is among, of a piece of logits.
  __device__ __forceinline__ void add_scores(int j, Piece& p) const {
    if (score_kind() == RouterScore::kSigmoid) {
      for_elements([&](int i) { p.v[i] = sigmoid_score(p.v[i]); });
    } else if (score_kind() == RouterScore::kSqrtSoftplus) {
      for_elements([&](int i) { p.v[i] = sqrt_softplus_score(p.v[i]); });
    } else {
      for_elements([&](int i) { p.v[i] = __fmul_rn(router_exp(__fadd_rn(p.v[i], -most)), by); });
    }
    if (has_bias()) {
      Piece bias;
      load<kConfig.bias, kConfig.plain && kConfig.whole>(static_cast<const char*>(given().bias), given().bias_dtype, j,
                                                         bias);
      for_elements([&](int i) { p.v[i] = __fadd_rn(p.v[i], bias.v[i]); });
    }
    for_elements([&](int i) { p.v[i] = has(j * kRowPiece + i) ? p.v[i] : kWorstLogit; });
  }
  // What the call asks for.
  __device__ __forceinline__ RouterScore score_kind() const { return kConfig.plain ? kConfig.score : given().score; }
  __device__ __forceinline__ bool has_bias() const {
    return kConfig.plain ? kConfig.bias != DType::kNone : given().bias != nullptr;
  }
  __device__ __forceinline__ bool scored() const {
    return kConfig.plain ? kConfig.scored : kConfig.wide && given().scored;
  }
  __device__ __forceinline__ bool grouped() const { return kConfig.plain ? kGroupLanes < kLanes : given().groups > 1; }
  __device__ __forceinline__ bool sums_all() const {
    return needs_softmax(score_kind(), scored(), given().renormalise);
  }
  __device__ __forceinline__ void score_piece(int j, Piece& p) const {
    if (scored()) add_scores(j, p);
    for_elements([&](int i) { p.v[i] = number(p.v[i]); });
  }

  // What the choice is among, of one expert, with the same bits as before.
  __device__ __forceinline__ float found_again(int expert) const {
    Piece one;
    load_piece<kConfig.x>(row, args.x, expert, 1, one);
    if (!scored()) return number(one.v[0]);
    const float found = score(one.v[0]);
    if (!has_bias()) return number(found);
    load_piece<kConfig.bias>(static_cast<const char*>(args.bias), args.bias_dtype, expert, 1, one);
    return number(__fadd_rn(found, one.v[0]));
  }

  // Logits to registers, and there to what the choice is among. NaN is rare: a sum of all tells, be it the softmax's.
  __device__ __forceinline__ void hold() {
#if !defined(__AMDGCN__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)  // before, registers do not suffice
    if constexpr (router_exchanges(kConfig)) return load_exchanged<kConfig>(row, lane, v);
#endif
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      Piece p;
      load_logits(j, p);
      for_elements([&](int i) { v[j * kRowPiece + i] = p.v[i]; });
    }
  }
  __device__ __forceinline__ void score_held() {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      if (!scored()) break;
      Piece p;
      for_elements([&](int i) { p.v[i] = v[j * kRowPiece + i]; });
      add_scores(j, p);
      for_elements([&](int i) { v[j * kRowPiece + i] = p.v[i]; });
    }
    float all = by;
    if (scored() || !sums_all()) {
      all = 0;
#pragma unroll
      for (int i = 0; i < kSlots; ++i) all = __fadd_rn(all, v[i]);
    }
    if (all == all) return;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) v[i] = number(v[i]);
  }

  // Whether the lane's group is among the best.
  __device__ __forceinline__ void choose_groups() {
    float one = kWorstLogit, two = kWorstLogit;
    each<true>([&](int, const Piece& p) {
      for_elements([&](int i) {
        float other = p.v[i];
        order(one, other);
        two = better_of(two, other);
      });
    });
#pragma unroll
    for (int distance = 1; distance < kGroupLanes; distance *= 2) {
      const float other_one = lane_xor(one, static_cast<unsigned>(distance));
      const float other_two = lane_xor(two, static_cast<unsigned>(distance));
      two = larger(one < other_one ? one : other_one, larger(two, other_two));
      one = larger(one, other_one);
    }
    const bool sums = given().group_score == GroupScore::kTwoLargest && given().group_experts > 1;
    const float mine = number(sums ? __fadd_rn(one, two) : one);
    int better = 0;
#pragma unroll kTogether
    for (int distance = 1; distance < kLanes / kGroupLanes; ++distance) {
      const float other = lane_xor(mine, static_cast<unsigned>(distance * kGroupLanes));
      const int group = lane / kGroupLanes;
      better += other > mine || (other == mine && (group ^ distance) < group) ? 1 : 0;
    }
    open = better < given().topk_groups;
  }

  // The best four of a piece besides those that are there.
  template <class Make>
  __device__ __forceinline__ void offer_piece(Make&& make) {
#pragma unroll
    for (int half = 0; half < kRowPiece; half += 4) {
      Key four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = make(half + i);
      order_four(four);
      merge_best(best, four);
    }
  }
  __device__ __forceinline__ void find_best() {
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = Keys::kNone;
    each<true>([&](int j, const Piece& p) {
      offer_piece([&](int i) {
        const int slot = j * kRowPiece + i;
        return has(slot) ? Keys::of(p.v[i], offset(slot)) : Keys::kNone;
      });
    });
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = open ? best[i] : Keys::kNone;
  }
  __device__ __forceinline__ void find_eight() {
    each<true>([&](int j, const Piece& p) {
      Key eight[8];
      for_elements([&](int i) {
        const int slot = j * kRowPiece + i;
        eight[i] = has(slot) ? Keys::of(p.v[i], offset(slot)) : Keys::kNone;
      });
      order_eight(eight);
      if (j > 0) return merge_best(best, eight);
      for_elements([&](int i) { best[i] = eight[i]; });
    });
    for_elements([&](int i) { best[i] = open ? best[i] : Keys::kNone; });
  }
  // The best of all lanes, in each of them.
  __device__ __forceinline__ void find_few() {
    if constexpr (kBest == 8) {
      find_eight();
    } else {
      find_best();
    }
#pragma unroll
    for (int i = 0; i < kBest; ++i) best[i] -= first;
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      Key other[kBest];
#pragma unroll
      for (int i = 0; i < kBest; ++i) other[i] = Keys::exchange(best[i], static_cast<unsigned>(distance));
      merge_best(best, other);
    }
  }
  // Those below `last`, which was the fourth. It is rare that a lane has more than four of the chosen: the registers are others'.
  __device__ __forceinline__ void find_next(Key last) {
#pragma unroll 1
    for (int j = 0; j < kPieces; ++j) {
      Piece p;
      load_logits(j, p);
      score_piece(j, p);
      offer_piece([&](int i) {
        const int slot = j * kRowPiece + i;
        const Key key = Keys::of(p.v[i], offset(slot));
        return has(slot) && key < last ? key : Keys::kNone;
      });
    }
  }

  // chosen(j, key) of the j-th best, in every lane.
  template <class Chosen>
  __device__ __forceinline__ void choose(Chosen&& chosen) {
    find_best();
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
      chosen(j, all);
      if (all != mine) continue;
      const Key last = best[0];
      best[0] = best[1], best[1] = best[2], best[2] = best[3], best[3] = Keys::kNone;
      if (++taken == 4 && j + 1 < args.k) {
        find_next(last);
        taken = 0;
      }
    }
  }
};

template <MoeRoutingGpuConfig kConfig>
__device__ __forceinline__ void moe_routing_gpu(const MoeRoutingArgs& given) {
  const MoeRoutingArgs& args = anew(given);
  constexpr int kLanes = kConfig.lanes, kKept = kConfig.kept, kTokens = kRouterThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#if defined(__AMDGCN__)
  constexpr bool kWalks = true;
#else
  constexpr bool kWalks = kConfig.x == DType::kNone || kConfig.few == 0;  // without a loop large choices would spill
#endif
  if constexpr (kConfig.edge) allow_next_kernel();
  long long begin = static_cast<long long>(blockIdx.x) * kTokens;
#pragma unroll 1
  do {
    // Lanes of tokens behind the last one take that one: they meet the others.
    const long long mine = begin + static_cast<int>(threadIdx.x) / kLanes;
    const bool there = mine < args.tokens;
    const long long token = there ? mine : args.tokens - 1;
    const DType type = kConfig.x == DType::kNone ? args.x : kConfig.x;
    const char* const row = static_cast<const char*>(args.logits) + token * args.stride_logits * dtype_bits(type) / 8;

    RouterLane<kConfig> part(args, row, lane);
    if constexpr (kConfig.edge) {
      part.fetch();
      wait_for_previous_kernel();
    }
    if constexpr (part.kHolds) part.hold();
    if (!part.kHoldsWords && part.sums_all()) part.find_softmax();
    if constexpr (part.kHolds) part.score_held();
    if (!part.kHoldsWords && part.grouped()) part.choose_groups();

    // The j-th is kept by lane j, and so on round.
    using Keys = typename RouterLane<kConfig>::Keys;
    typename Keys::Type key[kKept];
#pragma unroll
    for (int s = 0; s < kKept; ++s) key[s] = Keys::kNone;
    bool sieved = false;
#if !defined(__AMDGCN__)
    if constexpr (part.kHoldsWords) {
      RouterWords<kConfig> words(row, lane);
      if (part.sums_all()) words.find_softmax([](float x) { return router_exp(x); }, part.most, part.by);
      sieved = RouterSieve<kConfig>(lane).choose(words, key);
    } else if constexpr (kConfig.sieve > 0) {
      sieved = RouterSieve<kConfig>(lane).choose(RouterValues<kConfig, RouterLane<kConfig>>(part), key);
    }
#endif
    if constexpr (kConfig.few > 0 && kConfig.sieve == 0) {
      part.find_few();
#pragma unroll
      for (int s = 0; s < kKept; ++s) {
#pragma unroll
        for (int i = 0; i < part.kBest; ++i) key[s] = i == lane + s * kLanes ? part.best[i] : key[s];
      }
    } else if (!sieved) {
      part.choose([&](int j, auto chosen) {
#pragma unroll
        for (int s = 0; s < kKept; ++s) key[s] = j == lane + s * kLanes ? chosen : key[s];
      });
    }

    // Scores of the chosen, from their logits: keys have them but where the choice was among scores. The worst may have been NaN.
    float weight[kKept];
    int expert[kKept];
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      weight[s] = kWorstLogit, expert[s] = 0;
      if (lane + s * kLanes >= args.k) continue;
      weight[s] = Keys::value(key[s]), expert[s] = Keys::expert(key[s]);
      if (!part.scored() && weight[s] != kWorstLogit) continue;
      Piece one;
      load_piece<kConfig.x>(row, args.x, expert[s], 1, one);
      weight[s] = one.v[0];
    }
    if (part.score_kind() == RouterScore::kSoftmax && !part.sums_all()) {
      part.most = kLeastValue, part.by = 1;
#pragma unroll
      for (int s = 0; s < kKept; ++s) part.most = larger(weight[s], part.most);
      part.most = part.over_lanes(part.most, larger);
    }
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      if (lane + s * kLanes < args.k) weight[s] = part.score(weight[s]);
    }
    float by = args.scale;
    if (args.renormalise) {
      // In one order, however many lanes have them.
      float sum = 0;
#pragma unroll
      for (int s = 0; s < kKept; ++s) {
        sum = __fadd_rn(sum, part.over_lanes(lane + s * kLanes < args.k ? weight[s] : 0, sum_of));
      }
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
    begin += args.grid * kTokens;
  } while (kWalks && begin < args.tokens);
}

}  // namespace tilewright
