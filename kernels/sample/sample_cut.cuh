// SPDX-License-Identifier: MIT
// Where a row's choice ends, by a block: what bins of all chunks say, and the tokens of the bins that hold the end.
#pragma once

#include "sample/sample_tokens.cuh"

namespace tilewright {

// Masses in units of the row's: of what stands before the bins that hold the end, of that with all of these, and of all tokens.
struct SampleCut {
  BinRange bins;
  unsigned count;  // of tokens before them
  unsigned long long before, with, total;
};

// Which tokens are at the cut, and their masses in its units.
struct CutPlaces {
  float most, inverse, behind, upper, lower;

  __device__ __forceinline__ void set(const SampleRule& rule, float largest, const BinRange& bins) {
    most = largest, inverse = rule.inverse;
    behind = __fmul_rn(static_cast<float>(bins.first), kBinWidth);
    const float top = place(most);
    upper = bins.first == 0 ? -kNoToken : __fadd_rn(top, -behind);
    lower = bins.last == kSelectBins - 1 ? kNoToken : __fmaf_rn(static_cast<float>(bins.last), -kBinWidth, top);
  }
  __device__ __forceinline__ float factor() const { return __fmul_rn(inverse, kLog2E); }
  __device__ __forceinline__ float place(float x) const { return place_of(x, factor()); }
  __device__ __forceinline__ bool has(float x) const {
    const float at = place(x);
    return at <= upper && at >= lower;
  }
  __device__ __forceinline__ unsigned long long mass(float x) const {
    const float d = scaled_difference(x, most, inverse);
    return whole_mass(__fmul_rn(exp2_approx(__fmaf_rn(d, kLog2E, behind)), kCutMassUnit));
  }
};

struct SampleListed {
  float x;
  unsigned id;
};
// What a block knows of its row, in shared memory, because registers are few while it selects.
struct SampledRow {
  SampleRule rule;
  SampleCut cut;
  CutPlaces places;
  int power, bin;       // mass_power(); the bin that was drawn
  float place, to_cut;  // of the largest logit; what a unit of the row's masses is at the cut
  unsigned long long target,
      token;  // the mass that names the bin, which is a share at first; the number that names the token in it
  unsigned long long mass[kSelectBins];     // of bins, in units of their own
  unsigned long long mass_to[kSelectBins];  // up to each bin, in the row's units
};
static_assert(kSelectSharedBytes + kSampleGathered * sizeof(SampleListed) + sizeof(SampledRow) <= kSampleSharedBytes);
// Behind what it selects with, and tokens at the cut.
__device__ __forceinline__ SampleListed* gathered_tokens() {
  return reinterpret_cast<SampleListed*>(dynamic_shared() + kSelectSharedBytes);
}
__device__ __forceinline__ SampledRow& sampled_row() {
  return *reinterpret_cast<SampledRow*>(gathered_tokens() + kSampleGathered);
}
// That of a thread's bin among the row's.
__device__ __forceinline__ unsigned long long bin_among_row(unsigned bin, unsigned long long mass, int power) {
  const auto unit = static_cast<float>(power - kBinMassBits);
  return scale_mass(mass, exp2_approx(__fmaf_rn(static_cast<float>(bin), -kBinWidth, unit)));
}
// What a unit of the row's masses is at the cut; `above` is where the most likely token is above its bin's middle.
__device__ __forceinline__ float row_to_cut(int first, float above, int power) {
  return exp2_approx(
      __fadd_rn(__fmaf_rn(static_cast<float>(first), kBinWidth, static_cast<float>(32 - power)), -above));
}
__device__ __forceinline__ float above_middle(float x, float factor) {
  return __fmaf_rn(x, factor, __fadd_rn(kPlaceOrigin, -place_of(x, factor)));
}

// Adds up the bins of a row's chunks, and finds which hold the end. Two threads a bin, each for every other few chunks.
__device__ __forceinline__ void merge_bins(const SampleArgs& args, long long row, float most) {
  SampledRow& its = sampled_row();
  const SampleRule& rule = its.rule;
  const SampleChunk* const chunks = args.found + row * args.chunks;
  const float factor = place_factor(rule), place = place_of(most, factor);
  constexpr int kLast = kSelectBins - 1, kShares = kSelectThreads / kSelectBins;
  static_assert(kShares == 2);
  const bool counts = kCountsAll || rule.top_k != kAllTokens;
  const int me = static_cast<int>(select_thread()), bin = me % kSelectBins, share = me / kSelectBins;
  // The rest is what is behind the last bin but one, in units of the last.
  unsigned count = 0;
  unsigned long long mass = 0, rest = 0;
  SelectShared& shared = select_shared();
  // All of some chunks is asked for at once: nothing branches around loads, and warps meet before anything is made of them.
  const auto add_chunks = [&]<int kSome>(long long first, int place_of_first) {
    int behind[kSome];
    unsigned shifted[kSome], shifted_count[kSome], own_mass[kSome];
    const SampleBins* const bins = args.bins + row * args.chunks + first;
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      behind[i] = static_cast<int>(shared.member[place_of_first + i]);
      const int from = bin < behind[i] ? 0 : bin - behind[i];
      own_mass[i] = bins[i].mass[bin], shifted[i] = bins[i].mass[from];
      shifted_count[i] = counts ? bins[i].count[from] : 0;
    }
    if constexpr (kSome > 1) meet_lanes();
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      const bool reaches = bin >= behind[i] && bin < kLast;
      mass += reaches ? shifted[i] : 0, count += reaches ? shifted_count[i] : 0;
      const int beyond = bin == kLast ? behind[i] : bin + behind[i] - kLast;
      if (beyond < 0) continue;
      const float unit = exp2_approx(__fmaf_rn(static_cast<float>(beyond), -kBinWidth, 32 - kBinMassBits));
      rest += scale_mass(own_mass[i], unit);
    }
  };
  // How many bins chunks begin behind the row, found by a thread each.
#pragma unroll 1
  for (long long first = 0; first < args.chunks; first += kSelectThreads) {
    const long long left = args.chunks - first;
    const int some = left < kSelectThreads ? static_cast<int>(left) : kSelectThreads;
    __syncthreads();
    if (me < some)
      shared.member[me] = static_cast<TokenKey>(bins_behind(place, place_of(chunks[first + me].most, factor)));
    __syncthreads();
    const int together = some / kChunksAtOnce * kChunksAtOnce;
#pragma unroll 1
    for (int c = share * kChunksAtOnce; c < together; c += kShares * kChunksAtOnce)
      add_chunks.template operator()<kChunksAtOnce>(first + c, c);
#pragma unroll 1
    for (int c = together + share; c < some; c += kShares) add_chunks.template operator()<1>(first + c, c);
  }
  rest = scale_mass(sums_of_threads(rest).all, 1 / row_to_cut(kLast, 0, its.power));
  if (share == 1) shared.count[bin] = count, its.mass_to[bin] = mass;
  __syncthreads();
  if (share == 0) count += shared.count[bin], mass += its.mass_to[bin], its.mass[bin] = mass;
  const auto of_bin = [&] {
    if (me >= kLast) return me == kLast ? rest : 0;
    return bin_among_row(static_cast<unsigned>(me), mass, its.power);
  };
  sum_bins(share == 0 ? count : 0, of_bin());
  if (share == 0) its.mass_to[bin] = shared.mass_to[bin];

  // The first bin that reaches a limit. Of the mass of the k, what is before the bin of the k-th tells where it is at least.
  const unsigned long long total = shared.mass_to[kLast];
  ChoiceLimits limits{rule.top_k, kAllMass};
  const bool of_the_k = weighs_the_k(args, rule);
  int last = reach_bins(0, 0, limits).of_count;
  last = last < kLast ? last : kLast;
  int first = last;
  if (rule.has_top_p) {
    const unsigned long long least = last == 0 ? 0 : shared.mass_to[last - 1];
    limits.mass = share_of(of_the_k ? least : total, rule.share);
    reset_reached();
    const int reached = reach_bins(0, 0, limits).of_mass;
    first = reached < last ? reached : last, last = of_the_k ? last : first;
  }
  if (has_floor(rule)) {
    const BinRange floor = bins_of_floor(rule.floor, above_middle(most, factor));
    const BinRange both = with_floor({first, last}, floor, of_the_k);
    first = both.first, last = both.last;
  }
  if (me != 0) return;
  SampleCut& cut = its.cut;
  cut.bins.first = first, cut.bins.last = last;
  cut.count = first == 0 ? 0 : shared.count_to[first - 1], cut.before = first == 0 ? 0 : shared.mass_to[first - 1];
  cut.with = shared.mass_to[last], cut.total = total;
}

// One of them.
struct CutToken {
  float x;
  long long id;
  __device__ __forceinline__ float value() const { return x; }
  __device__ __forceinline__ TokenKey key() const { return token_key(x, id); }
  __device__ __forceinline__ unsigned long long mass() const { return sampled_row().places.mass(x); }
};

// Lists those of a chunk's tokens that are at the cut.
template <SampleConfig kConfig>
__device__ __forceinline__ void list_tokens(const ChunkPart<kConfig>& part, float most) {
  const CutPlaces& places = sampled_row().places;
  const float factor = places.factor(), upper = places.upper, lower = places.lower;
  // Few are, and most threads have nothing that large.
  if (place_of(most, factor) < lower || most == kNoToken) return;
  unsigned listed = 0, count = 0;
#pragma unroll
  for (int j = 0; j < part.kPieces; ++j) {
    for_elements([&](int i) {
      const float x = part.p[j].v[i], at = place_of(x, factor);
      const bool is = at <= upper && at >= lower && x != kNoToken;
      listed |= is ? 1u << (j * kRowPiece + i) : 0, count += is ? 1 : 0;
    });
  }
  if (listed == 0) return;
  unsigned place = add_shared(&select_shared().listed, count);
#pragma unroll
  for (int j = 0; j < part.kPieces; ++j) {
    for_elements([&](int i) {
      if ((listed >> (j * kRowPiece + i) & 1) == 0) return;
      if (place < kSampleGathered) gathered_tokens()[place] = {part.p[j].v[i], static_cast<unsigned>(part.id(j, i))};
      ++place;
    });
  }
}
// Lists a row's tokens at the cut in shared memory, in any order, as many as have room there of those that `listed` counts.
template <SampleConfig kConfig>
__device__ __forceinline__ void gather(const SampleArgs& args, long long row) {
  SelectShared& shared = select_shared();
  const int me = static_cast<int>(select_thread());
  __syncthreads();
  if (me == 0) shared.listed = 0;
  const auto chunks = static_cast<int>(anew(args).chunks);  // of 2^31 tokens at most
#pragma unroll 1
  for (int first = 0; first < chunks; first += kSelectThreads) {
    // Which chunks reach the cut, by a thread each.
    __syncthreads();
    if (first + me < chunks) {
      const SampleArgs& now = anew(args);
      const CutPlaces& places = sampled_row().places;
      const float most = now.found[row * now.chunks + first + me].most;
      shared.member[me] = places.place(most) >= places.lower ? 1 : 0;
    }
    __syncthreads();
    const int end = chunks - first < kSelectThreads ? chunks : first + kSelectThreads;
    const auto reaching = [&](int c) {
      while (c < end && shared.member[c - first] == 0) ++c;
      return c;
    };
#pragma unroll 1
    for (int c = reaching(first); c < end; c = reaching(c + 1)) {
      // Nothing but the row stays in registers from chunk to chunk.
      ChunkPart<kConfig> part(anew(args), row, c);
      const float most = part.load();
      list_tokens(part, most);
    }
  }
  __syncthreads();
}

// body(CutToken) of them: where they were gathered, or from the row, a warp a chunk.
template <SampleConfig kConfig, class Body>
__device__ __forceinline__ void for_cut(const SampleArgs& args, long long row, Body&& body) {
  const unsigned listed = select_shared().listed;
  if (listed <= kSampleGathered) {
#pragma unroll 1
    for (unsigned i = select_thread(); i < listed; i += kSelectThreads) {
      const SampleListed one = gathered_tokens()[i];
      body(CutToken{one.x, static_cast<long long>(one.id)});
    }
    return;
  }
  const CutPlaces& places = sampled_row().places;
  const int me = static_cast<int>(select_thread()), lane = me % kRowLanes;
#pragma unroll 1
  for (long long c = me / kRowLanes; c < anew(args).chunks; c += kSelectWarps) {
    const SampleArgs& now = anew(args);
    if (places.place(now.found[row * now.chunks + c].most) < places.lower) continue;
    const char* const logits = logits_of<kConfig>(now, row);
    const long long start = c * kSampleChunk, rest = now.vocabulary - start;
    const int count = rest < kSampleChunk ? static_cast<int>(rest) : kSampleChunk;
#pragma unroll 1
    for (int i = lane; i < count; i += kRowLanes) {
      const float x = logit_at<kConfig>(now, logits, start + i);
      if (x != kNoToken && places.has(x)) body(CutToken{x, start + i});
    }
  }
}

}  // namespace tilewright
