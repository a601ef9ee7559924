// SPDX-License-Identifier: MIT
// sample_gpu: chunks of a row have a block each, which keeps them in registers. A row that is drawn from as a whole takes two steps: the
// best of each chunk, the best of these. One that top_k, top_p or min_p cut takes four: bins of each chunk, what they say of the row, draws among
// the tokens before the cut with a list of those at it, and the end of the choice among these. Typed by its config, or at run time.
#pragma once

#include "sample/sample_tokens.cuh"

namespace tilewright {

// A chunk alone: its largest logit and sum; the best token where nothing cuts the row, else bins.
template <SampleConfig kConfig>
__device__ __forceinline__ void find_in_chunk(const SampleArgs& args, long long item) {
  const long long row = item / args.chunks;
  const SampleRule rule = own_rule(args, row);
  const SampleWorkspace work = sample_workspace(args);
  ChunkPart<kConfig> part{args, logits_of<kConfig>(args, row), (item - row * args.chunks) * kSampleChunk, {}};
  part.load();
  float most = kNoToken;
#pragma unroll
  for (int j = 0; j < part.kPieces; ++j) for_elements([&](int i) { most = at_least(part.p[j].v[i], most); });
  most = largest_of_block(most);
  float sum = 0;
  if (args.log_probabilities != nullptr && most != kNoToken) {
    part.each([&](float x, long long) {
      sum = __fadd_rn(sum, exp2_approx(__fmul_rn(scaled_difference(x, most, rule.inverse), kLog2E)));
    });
    sum = sum_of_block(sum);
  }

  // The best.
  TokenKey best = 0;
  if (rule.greedy) {
    part.each([&](float x, long long id) {
      const TokenKey key = token_key(x, id);
      best = key > best ? key : best;
    });
    best = largest_key(best);
  } else if (!has_cut(rule) && !has_floor(rule)) {
    best = largest_key(part.race(rule, most, [](float) { return true; }));
  }

  // Bins.
  if (has_cut(rule)) {
    SelectShared& shared = select_shared();
    const unsigned bin = select_thread();
    clear_bins();
    const int top = octave_eighth(most, rule.inverse);
    const bool counts = kCountsAll || rule.top_k != kAllTokens, weighs = kCountsAll || rule.has_top_p;
    part.each([&](float logit, long long) {
      const float x = renewed(logit);
      const int at = bin_of(x, top, rule.inverse);
      if (counts) add_shared(&shared.count[at], 1);
      if (weighs) add_shared(&shared.mass_low[at], bin_mass(x, most, rule.inverse, at));
    });
    __syncthreads();
    if (bin < kSelectBins) {
      work.bins[item].count[bin] = shared.count[bin];
      work.bins[item].mass[bin] = shared.mass_low[bin];
    }
  }
  if (select_thread() == 0) work.chunks[item] = {most, sum, 0, 0, best == 0 ? -1 : key_id(best)};
}

__device__ __forceinline__ float largest_chunk(const SampleArgs& args, const SampleChunk* chunks) {
  float most = kNoToken;
#pragma unroll 1
  for (long long c = threadIdx.x; c < args.chunks; c += kSelectThreads) {
    most = chunks[c].most > most ? chunks[c].most : most;
  }
  return largest_of_block(most);
}

// Of all chunks of a row: which bins hold the cut.
__device__ __forceinline__ void merge_row(const SampleArgs& args, long long row) {
  const SampleRule rule = own_rule(args, row);
  const SampleWorkspace work = sample_workspace(args);
  const SampleChunk* const chunks = work.chunks + row * args.chunks;
  SampleCut cut{largest_chunk(args, chunks), kSelectBins, -1, 0, 0, 0};
  const int bin = static_cast<int>(select_thread());
  if (has_cut(rule) && cut.most != kNoToken) {
    // Bins of chunks begin at their own largest logits; the last bin has what is left of all.
    const int top = octave_eighth(cut.most, rule.inverse);
    unsigned count = 0, all_count = 0;
    unsigned long long mass = 0, all_mass = 0;
    if (bin < kSelectBins) {
#pragma unroll kChunksAtOnce
      for (long long c = 0; c < args.chunks; ++c) {
        // Nothing branches around loads. A chunk without tokens weighs nothing.
        const float most = chunks[c].most;
        const SampleBins& bins = work.bins[row * args.chunks + c];
        const int at = bin - (top - octave_eighth(most, rule.inverse)), from = at < 0 ? 0 : at;
        const bool reaches = bin < kSelectBins - 1 && at >= 0;
        const float shift = __fmul_rn(scaled_difference(most, cut.most, rule.inverse), kLog2E);
        const auto mass_of = [&](int b) {
          const float unit = exp2_approx(__fmaf_rn(static_cast<float>(b), -0.125f, shift));
          return static_cast<unsigned long long>(
              __fmul_rn(static_cast<float>(bins.mass[b]), __fmul_rn(unit, kMassUnit / kBinUnit)));
        };
        all_count += bins.count[bin], all_mass += mass_of(bin);
        count += reaches ? bins.count[from] : 0, mass += reaches ? mass_of(from) : 0;
      }
    }
    // What all have, then what bins before the last have.
    sum_bins(all_count, all_mass);
    SelectShared& shared = select_shared();
    all_count = shared.count_to[kSelectBins - 1], all_mass = shared.mass_to[kSelectBins - 1];
    sum_bins(count, mass);
    if (bin == kSelectBins - 1) {
      count = all_count - shared.count_to[bin], mass = all_mass - shared.mass_to[bin];
    }
    sum_bins(count, mass);

    // The first bin that reaches a limit. Of the mass of the k, less than it and the bin of the k-th together tell.
    cut.total = all_mass;
    ChoiceLimits limits{rule.top_k, kAllMass};
    const bool of_the_k = rule.has_top_p && args.joint == SampleJoint::kTopKFirst && rule.top_k != kAllTokens;
    int last = reach_bins(0, 0, limits).of_count;
    if (of_the_k && last < kSelectBins) {
      const unsigned long long least = last == 0 ? 0 : shared.mass_to[last - 1];
      limits.mass = share_of(least, rule.share);
      reset_reached();
      const int first = reach_bins(0, 0, limits).of_mass;
      cut.first = first < last ? first : last, cut.last = last;
    } else {
      if (rule.has_top_p) limits.mass = share_of(all_mass, rule.share);
      reset_reached();
      cut.first = reach_bins(0, 0, limits).first();
      cut.last = cut.first < kSelectBins ? cut.first : -1;
    }
    if (cut.first > 0 && cut.first < kSelectBins) {
      cut.count = shared.count_to[cut.first - 1], cut.mass = shared.mass_to[cut.first - 1];
    }
  }
  if (select_thread() == 0) work.cuts[row] = cut;
}

// A chunk again: the best of the tokens before the cut, and a list of those at it.
template <SampleConfig kConfig>
__device__ __forceinline__ void draw_in_chunk(const SampleArgs& args, long long item) {
  const long long row = item / args.chunks;
  const SampleRule rule = own_rule(args, row);
  if (!has_cut(rule) && !has_floor(rule)) return;
  const SampleWorkspace work = sample_workspace(args);
  const SampleCut cut = own_cut(work.cuts[row]);
  SampleChunk& chunk = work.chunks[item];
  const CutEdges edges(cut, rule.inverse);
  // Nothing of it is before the cut's end.
  const bool lies_below = cut.last >= 0 && edges.place(chunk.most) < edges.worst;
  if (chunk.most == kNoToken || lies_below) return;
  SelectShared& shared = select_shared();
  __syncthreads();
  if (select_thread() == 0) shared.listed = 0;
  __syncthreads();
  ChunkPart<kConfig> part{args, logits_of<kConfig>(args, row), (item - row * args.chunks) * kSampleChunk, {}};
  part.load();
  if (cut.last >= 0) {
    SampleListed* const list = work.lists + item * kSampleListed;
    part.each([&](float x, long long id) {
      if (!edges.is_at_cut(x)) return;
      const unsigned at = add_shared(&shared.listed, 1);
      if (at < kSampleListed) list[at] = {x, static_cast<unsigned>(id)};
    });
  }
  const TokenKey best = largest_key(part.race(rule, cut.most, [&](float x) {
    return scaled_difference(x, cut.most, rule.inverse) >= rule.floor && edges.is_better(x);
  }));
  if (select_thread() == 0) chunk.listed = shared.listed, chunk.best = best == 0 ? -1 : key_id(best);
}

// The lists of a row's chunks, put together in shared memory.
inline constexpr int kGathered = 5120;
static_assert(kSelectSharedBytes + kGathered * sizeof(SampleListed) <= kSampleSharedBytes);
__device__ __forceinline__ SampleListed* gathered_tokens() {
  return reinterpret_cast<SampleListed*>(dynamic_shared() + kSelectSharedBytes);
}
// Whether all tokens at the cut are there; a warp takes a chunk's.
__device__ __forceinline__ bool gather(const SampleArgs& args, long long row) {
  SelectShared& shared = select_shared();
  __syncthreads();
  if (select_thread() == 0) shared.listed = 0;
  __syncthreads();
  const int me = static_cast<int>(select_thread()), lane = me % kRowLanes, chunks = anew(static_cast<int>(args.chunks));
#pragma unroll 1
  for (int c = me / kRowLanes; c < chunks; c += kSelectWarps) {
    const SampleArgs& now = anew(args);
    const SampleWorkspace work = sample_workspace(now);
    const long long item = row * now.chunks + c;
    const unsigned listed = work.chunks[item].listed;
    // A list that is too short spoils all.
    if (listed > kSampleListed && lane == 0) add_shared(&shared.listed, kGathered + 1);
    const int count = listed > kSampleListed ? 0 : static_cast<int>(listed);
#pragma unroll 1
    for (int i = lane; i < count; i += kRowLanes) {
      const SampleListed one = work.lists[item * kSampleListed + i];
      const unsigned at = add_shared(&shared.listed, 1);
      if (at < kGathered) gathered_tokens()[at] = one;
    }
  }
  __syncthreads();
  return shared.listed <= kGathered;
}

// body(logit, id) of a row's tokens at the cut: where they were gathered, or a warp a chunk from its list, or where that was too short
// from the row.
template <SampleConfig kConfig, class Body>
__device__ __forceinline__ void for_listed(const SampleArgs& args, long long row, const SampleCut& cut, float inverse,
                                           int gathered, Body&& body) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < gathered; i += kSelectThreads) {
    const SampleListed one = gathered_tokens()[i];
    body(one.x, static_cast<long long>(one.id));
  }
  if (gathered >= 0) return;
  const int me = static_cast<int>(select_thread()), lane = me % kRowLanes, chunks = anew(static_cast<int>(args.chunks));
#pragma unroll 1
  for (int c = me / kRowLanes; c < chunks; c += kSelectWarps) {
    // Nothing but the row stays in registers from chunk to chunk.
    const SampleArgs& now = anew(args);
    const SampleWorkspace work = sample_workspace(now);
    const long long item = row * now.chunks + c;
    const unsigned listed = work.chunks[item].listed;
    if (listed <= kSampleListed) {
#pragma unroll 1
      for (unsigned i = static_cast<unsigned>(lane); i < listed; i += kRowLanes) {
        const SampleListed one = work.lists[item * kSampleListed + i];
        body(one.x, static_cast<long long>(one.id));
      }
      continue;
    }
    const char* const logits = logits_of<kConfig>(now, row);
    const CutEdges edges(cut, inverse);
    const long long start = static_cast<long long>(c) * kSampleChunk, rest = now.vocabulary - start;
    const int count = rest < kSampleChunk ? static_cast<int>(rest) : kSampleChunk;
#pragma unroll 1
    for (int i = lane; i < count; i += kRowLanes) {
      const long long id = start + i;
      const float x = logit_at<kConfig>(now, logits, id);
      if (x != kNoToken && edges.is_at_cut(x)) body(x, id);
    }
  }
}

// One at the cut.
struct CutToken {
  float x;
  long long id;
  float most, inverse;
  __device__ __forceinline__ float value() const { return x; }
  __device__ __forceinline__ TokenKey key() const { return token_key(x, id); }
  __device__ __forceinline__ unsigned long long mass() const { return token_mass(x, most, inverse); }
};

// Where the choice of a row ends among the tokens at the cut.
template <SampleConfig kConfig>
__device__ __forceinline__ TokenKey end_of_choice(const SampleArgs& args, long long row, int gathered) {
  const SampleRule rule = own_rule(args, row);
  const SampleCut cut = own_cut(sample_workspace(args).cuts[row]);
  const auto each = [&](auto&& body) {
    for_listed<kConfig>(args, row, cut, rule.inverse, gathered,
                        [&](float x, long long id) { body(CutToken{x, id, cut.most, rule.inverse}); });
  };
  // With the mass of the k the end is sought twice: for that mass, and for its share.
  ChoiceLimits limits{rule.top_k, kAllMass};
  int times = rule.has_top_p && anew(args).joint == SampleJoint::kTopKFirst && rule.top_k != kAllTokens ? 2 : 1;
  if (rule.has_top_p && times == 1) limits.mass = share_of(cut.total, rule.share);
  TokenKey end = 0;
#pragma unroll 1
  for (; times > 0; --times) {
    const ChoiceEnd found = find_end(cut.count, cut.mass, limits, kCountsAll || rule.has_top_p, each);
    end = found.key, limits.mass = share_of(found.mass, rule.share);
  }
  return end;
}

// A row's token.
template <SampleConfig kConfig>
__device__ __forceinline__ void choose_in_row(const SampleArgs& args, long long row) {
  // First, and forgotten: options and cut are read again behind it.
  int gathered = -1;
  TokenKey end = 0;
  const bool cuts = has_cut(own_rule(args, row)) && sample_workspace(args).cuts[row].last >= 0;
  if (cuts) {
    gathered = gather(args, row) ? static_cast<int>(select_shared().listed) : -1;
    end = end_of_choice<kConfig>(args, row, gathered);
  }

  const SampleRule rule = own_rule(args, row);
  const SampleWorkspace work = sample_workspace(args);
  const SampleChunk* const chunks = work.chunks + row * args.chunks;
  const float most = largest_chunk(args, chunks);
  const char* const logits = logits_of<kConfig>(args, row);
  const auto race = [&](float x, long long id) {
    if (rule.greedy) return token_key(x, id);
    const PhiloxWords words = philox(rule.seed, rule.offset, static_cast<unsigned>(id >> 2));
    unsigned word = words.word[0];
#pragma unroll
    for (int i = 1; i < 4; ++i) word = (id & 3) == i ? words.word[i] : word;
    return race_key(scaled_difference(x, most, rule.inverse), word, id);
  };

  // The best of the chunks, and of the tokens at the cut those before the end of the choice.
  TokenKey best = 0;
#pragma unroll 1
  for (long long c = threadIdx.x; c < args.chunks; c += kSelectThreads) {
    const long long id = chunks[c].best;
    if (id < 0) continue;
    const TokenKey key = race(logit_at<kConfig>(args, logits, id), id);
    best = key > best ? key : best;
  }
  if (cuts) {
    for_listed<kConfig>(args, row, own_cut(work.cuts[row]), rule.inverse, gathered, [&](float x, long long id) {
      if (token_key(x, id) < end || scaled_difference(x, most, rule.inverse) < rule.floor) return;
      const TokenKey key = race(x, id);
      best = key > best ? key : best;
    });
  }
  best = largest_key(best);
  if (select_thread() != 0) return;
  const long long id = best == 0 ? -1 : key_id(best);
  args.ids[row * args.id_words] = static_cast<int>(id);
  if (args.id_words == 2) args.ids[row * 2 + 1] = static_cast<int>(id >> 32);
  if (args.log_probabilities == nullptr) return;
  // Its logarithm among all, by sums of chunks in their order.
  float sum = 0;
#pragma unroll 1
  for (long long c = 0; c < args.chunks; ++c) {
    const SampleChunk chunk = chunks[c];
    const float d = __fmul_rn(scaled_difference(chunk.most, most, rule.inverse), kLog2E);
    sum = chunk.most == kNoToken ? sum : __fmaf_rn(chunk.sum, exp2_approx(d), sum);
  }
  const float d = id < 0 ? sum : scaled_difference(logit_at<kConfig>(args, logits, id), most, rule.inverse);
  args.log_probabilities[row] = id < 0 ? __builtin_bit_cast(float, 0x7FC00000u) : __fadd_rn(d, -log_of_sum(sum));
}

template <SampleConfig kConfig>
__device__ __forceinline__ void sample_gpu(const SampleArgs& given) {
  const bool of_chunks = given.step == SampleStep::kFind || given.step == SampleStep::kDraw;
  const long long items = of_chunks ? given.rows * given.chunks : given.rows;
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += anew(given).grid) {
    const SampleArgs& args = anew(given);
    switch (args.step) {
      case SampleStep::kFind: find_in_chunk<kConfig>(args, item); break;
      case SampleStep::kMerge: merge_row(args, item); break;
      case SampleStep::kDraw: draw_in_chunk<kConfig>(args, item); break;
      default: choose_in_row<kConfig>(args, item); break;
    }
  }
}

}  // namespace tilewright
