// SPDX-License-Identifier: MIT
// sample_gpu: two steps. Blocks take chunks of rows, and find each one's largest logit, and bins of its tokens where the row is not greedy. Then a
// block a row draws a bin, and the token in it from the one chunk that has it; where the bin holds the end of the choice, it reads the row
// again for the tokens there. Typed by its config, or at run time.
#pragma once

#include "sample/sample_cut.cuh"

namespace tilewright {

// Tokens of a chunk in bins, which are empty before and after. What has no mass is not counted.
template <SampleConfig kConfig>
__device__ __forceinline__ void fill_bins(const ChunkPart<kConfig>& part, const SampleRule& rule, float most,
                                          bool counts, SampleBins& to) {
  SelectShared& shared = select_shared();
  // Bins begin at the chunk's largest logit.
  const float factor = place_factor(rule), place = place_of(most, factor), least = __fadd_rn(place, -kBinsWidth);
  const unsigned me = select_thread(), own_bin = me % kSelectBins;
  unsigned* const nowhere = &shared.mass_high[own_bin];
  const auto add_all = [&]<bool kCounts>() {
#pragma unroll
    for (int j = 0; j < part.kPieces; ++j) {
      for_elements([&](int i) {
        const float x = renewed(part.p[j].v[i]), at = at_least(place_of(x, factor), least);
        const unsigned bin = place_bits(place) - place_bits(at), mass = bin_mass(x, factor, at);
        // What has no mass goes where nobody looks: a branch is four instructions.
        if constexpr (kCounts) add_shared(mass != 0 ? &shared.count[bin] : nowhere, 1);
        add_shared(mass != 0 ? &shared.mass_low[bin] : nowhere, mass);
      });
    }
  };
  if (has_places(place, /*of_row=*/false))
    counts ? add_all.template operator()<true>() : add_all.template operator()<false>();
  __syncthreads();
  if (me >= kSelectBins) return;
  to.mass[own_bin] = shared.mass_low[own_bin], shared.mass_low[own_bin] = 0;
  if (counts) to.count[own_bin] = shared.count[own_bin], shared.count[own_bin] = 0;
}

// The first of a chunk's largest tokens, with its place in the chunk for an id; the first warp knows it.
template <SampleConfig kConfig>
__device__ __forceinline__ TokenKey first_of_chunk(const ChunkPart<kConfig>& part, float most, int turn) {
  SelectShared& shared = select_shared();
  // Elements of a thread ascend.
  int first = 0;
#pragma unroll
  for (int e = part.kPieces * kRowPiece - 1; e >= 0; --e) {
    first = part.p[e / kRowPiece].v[e % kRowPiece] == most ? e : first;
  }
  TokenKey key = most == kNoToken ? 0 : token_key(most, part.place(first / kRowPiece) + first % kRowPiece);
  key = largest_of_lanes<kRowLanes>(key);
  const unsigned me = select_thread();
  if (me % kRowLanes == 0) shared.largest[turn][me / kRowLanes] = key;
  __syncthreads();
  return me < kRowLanes ? largest_of_lanes<kSelectWarps>(shared.largest[turn][me % kSelectWarps]) : 0;
}

// A chunk alone. What is in shared memory of one of two turns is read until the next one's threads have met.
template <SampleConfig kConfig>
__device__ __forceinline__ void find_in_chunk(const SampleArgs& args, long long item, const ChunkPart<kConfig>& part,
                                              float largest, int turn) {
  SampleRule rule{args.greedy};
  if (!args.greedy) set_temperature(rule, part.temperature), rule.top_k = limited_top_k(part.top_k, args.vocabulary);
  rule.inverse = own(rule.inverse);
  float most = largest, sum = 0;
  const bool weighs = args.log_probabilities != nullptr;
  if (weighs || !rule.greedy) most = largest_of_block</*kFree=*/true>(most, turn);
  if (weighs && most != kNoToken) {
    part.each([&](float x, long long) {
      sum = __fadd_rn(sum, exp2_approx(__fmul_rn(scaled_difference(x, most, rule.inverse), kLog2E)));
    });
    sum = sum_of_block(sum);
  }
  if (rule.greedy) {
    const TokenKey best = first_of_chunk<kConfig>(part, largest, turn);
    if (select_thread() == 0)
      args.found[item] = {best == 0 ? kNoToken : key_value(best), sum, best == 0 ? -1 : key_id(best)};
    return;
  }
  fill_bins<kConfig>(part, rule, most, kCountsAll || rule.top_k != kAllTokens, args.bins[item]);
  if (select_thread() == 0) args.found[item] = {most, sum, -1};
}

// A block's chunks one after another.
template <SampleConfig kConfig>
__device__ __forceinline__ void find_in_chunks(const SampleArgs& args) {
  const long long items = args.rows * args.chunks, me = blockIdx.x;
  const Quotient of_block = divided_by(items, args.grid);
  long long item = me * of_block.whole + (me < of_block.rest ? me : of_block.rest);
  long long left = of_block.whole + (me < of_block.rest ? 1 : 0);
  if (left == 0) return;
  const Quotient first = divided_by(item, args.chunks);
  ChunkPart<kConfig> next(args, first.whole, first.rest);
  // The next chunk is on its way while this one is counted.
  if (kAsksAhead) next.ask();
  if (!args.greedy) clear_bins();
#pragma unroll 1
  for (auto more = static_cast<unsigned>(left); more > 0; --more) {
    ChunkPart<kConfig> part = next;
    if (!kAsksAhead) part.ask();
    const float largest = part.clean();
    if (more > 1) {
      next.go_on(item + 1);
      if (kAsksAhead) next.ask();
    }
    find_in_chunk<kConfig>(anew(args), item++, part, largest, static_cast<int>(more % 2));
  }
}

// The token of a bin, in the order of ids, with whose mass more than its share of the bin's is reached.
template <SampleConfig kConfig>
__device__ __forceinline__ long long token_in_bin(const SampleArgs& given, long long row, int bin) {
  const SampleArgs& args = anew(given);
  SelectShared& shared = select_shared();
  const SampledRow& its = sampled_row();
  unsigned long long target = high_product(its.token, its.mass[bin]);
  // The chunk.
  long long chunk = 0;
#pragma unroll 1
  for (; chunk < args.chunks; chunk += kSelectThreads) {
    const long long c = chunk + select_thread();
    unsigned mass = 0;
    if (c < args.chunks) {
      const long long item = row * args.chunks + c;
      const int at = bin - bins_behind(its.place, place_of(args.found[item].most, place_factor(its.rule)));
      mass = at >= 0 ? args.bins[item].mass[at] : 0;
    }
    const ThreadBeyond found = first_beyond(mass, target);
    target -= found.before;
    if (found.thread < 0) continue;
    chunk += found.thread;
    break;
  }
  // The token.
  ChunkPart<kConfig> part(args, row, chunk);
  part.load();
  const float factor = place_factor(its.rule), wanted = __fmaf_rn(static_cast<float>(bin), -kBinWidth, its.place);
  const auto mass_of = [&](float x) { return place_of(x, factor) == wanted ? bin_mass(x, factor, wanted) : 0; };
  // Those of the first pieces stand before those of the second ones, and are summed beside them.
  static_assert(part.kPieces == 2);
  unsigned mass[part.kPieces] = {};
#pragma unroll
  for (int j = 0; j < part.kPieces; ++j) for_elements([&](int i) { mass[j] += mass_of(part.p[j].v[i]); });
  const ThreadSums sums = sums_of_threads(static_cast<unsigned long long>(mass[1]) << 32 | mass[0]);
  const auto of_first = static_cast<unsigned>(sums.all);
  const bool second = target >= of_first;
  target -= second ? of_first : 0;
  const unsigned before = static_cast<unsigned>(second ? sums.before >> 32 : sums.before);
  if (before <= target && target - before < (second ? mass[1] : mass[0])) {
    unsigned sum = before;
    bool drawn = false;
    for_elements([&](int i) {
      sum += mass_of(second ? part.p[1].v[i] : part.p[0].v[i]);
      if (!drawn && sum > target) drawn = true, shared.found.key = static_cast<TokenKey>(part.id(second ? 1 : 0, i));
    });
  }
  __syncthreads();
  return static_cast<long long>(shared.found.key);
}

// Of tokens at the cut whose differences are at least `floor`.
template <class Each>
__device__ __forceinline__ unsigned long long mass_above(float floor, Each&& each) {
  const CutPlaces& places = sampled_row().places;
  unsigned long long sum = 0;
  each([&](const CutToken& token) {
    sum += scaled_difference(token.x, places.most, places.inverse) >= floor ? token.mass() : 0;
  });
  return sums_of_threads(sum).all;
}
// Where top_p ends at the cut, of so much mass of the row.
__device__ __forceinline__ unsigned long long limit_at_cut(unsigned long long total) {
  const SampledRow& its = sampled_row();
  const unsigned long long share = share_of(total, its.rule.share), before = its.cut.before;
  const unsigned long long limit = share > before ? scale_mass(share - before, its.to_cut) : 0;
  return limit > 0 ? limit : 1;
}
// Whether the draw stays at the cut, where so much is left: where that does not reach so far, it is made again among what is left.
__device__ __forceinline__ bool stays_at_cut(unsigned long long left) {
  SampledRow& its = sampled_row();
  const unsigned long long left_of_row = scale_mass(left, 1 / its.to_cut), before = its.cut.before;
  if (before == 0 || its.target - before < left_of_row) return true;
  const DrawNumbers numbers = draw_numbers(its.rule, 1);
  const unsigned long long target = high_product(numbers.bin, before + left_of_row);
  __syncthreads();
  if (select_thread() == 0) its.target = target, its.token = numbers.token;
  __syncthreads();
  return target >= before;
}
// Where the choice ends at the cut, of as many tokens as each thread may look at.
inline constexpr unsigned kFewAtCut = 128;
template <class Each>
__device__ __forceinline__ ChoiceEnd end_of_few(unsigned before, const ChoiceLimits& limits, Each&& each) {
  SelectShared& shared = select_shared();
  const unsigned long long all = mass_above(kNoToken, each);
  if (before + shared.listed < limits.count && all < limits.mass) return {1, all};
  if (select_thread() == 0) shared.members = 0;
  __syncthreads();
  each([&](const CutToken& token) {
    const unsigned at = add_shared(&shared.members, 1);
    shared.member[at] = token.key(), shared.member_mass[at] = token.mass();
  });
  return rank_members(before, 0, limits, true);
}
// The token at the cut that a row's numbers name, or -1 where they name one before it.
template <SampleConfig kConfig>
__device__ __forceinline__ long long token_at_cut(const SampleArgs& args, long long row) {
  const SampledRow& its = sampled_row();
  gather<kConfig>(anew(args), row);
  const auto each = [&](auto&& body) { for_cut<kConfig>(args, row, body); };
  // The end is sought for the mass of the k, for what is left, and for the token.
  enum { kOfTheK, kLeft, kToken };
  int step = anew(weighs_the_k(args, its.rule) ? kOfTheK : kLeft);
  ChoiceLimits limits{its.rule.top_k, kAllMass};
  if (its.rule.has_top_p && step == kLeft) {
    limits.mass = limit_at_cut(its.cut.total > 0 ? its.cut.total : mass_above(kNoToken, each));
  }
#pragma unroll 1
  for (;; ++step) {
    const unsigned before = step == kToken ? 0 : its.cut.count;
    const bool few = select_shared().listed <= kFewAtCut;
    const ChoiceEnd found = few ? end_of_few(before, limits, each) : find_end(before, 0, limits, true, each);
    if (step == kToken) {
      // The last one of the choice, of which an end tells no more than that.
      TokenKey last = 0;
      each([&](const CutToken& token) {
        const TokenKey key = token.key();
        last = key >= found.key && ~key > last ? ~key : last;
      });
      return key_id(~largest_key(last));
    }
    if (step == kOfTheK) {
      limits.mass = limit_at_cut(its.cut.before + scale_mass(found.mass, 1 / its.to_cut));
      continue;
    }
    unsigned long long left = found.mass;
    if (has_floor(its.rule)) {
      const unsigned long long above = mass_above(its.rule.floor, each);
      left = above < left ? above : left;
    }
    if (!stays_at_cut(left)) return -1;
    limits = {kAllTokens, high_product(its.token, left) + 1};
  }
}

// What a row asks for, by a thread, and its random numbers by another. Field by field: a whole struct would take its way through local memory.
__device__ __forceinline__ void know_row(const SampleArgs& args, long long row) {
  SampledRow& its = sampled_row();
  SampleRule& to = its.rule;
  const unsigned me = select_thread();
  __syncthreads();
  if (me == kRowLanes) {
    const DrawNumbers numbers = draw_numbers(own_rule(args, row), 0);
    its.target = numbers.bin, its.token = numbers.token;
  }
  if (me != 0) return;
  const SampleRule rule = own_rule(args, row);
  its.power = mass_power(args.vocabulary);
  to.greedy = rule.greedy, to.inverse = rule.inverse, to.top_k = rule.top_k, to.has_top_p = rule.has_top_p;
  to.share = rule.share, to.floor = rule.floor, to.seed = rule.seed, to.offset = rule.offset;
}

// The token of a row that is not greedy.
template <SampleConfig kConfig>
__device__ __forceinline__ long long draw_in_row(const SampleArgs& args, long long row, float most) {
  SampledRow& its = sampled_row();
  const unsigned me = select_thread();
  const float factor = place_factor(its.rule), place = place_of(most, factor);
  // Without places all of the row is at the cut.
  const bool binned = has_places(place, /*of_row=*/true);
  if (binned) merge_bins(anew(args), row, most);
  if (me == 0) {
    if (!binned) {
      its.cut.bins.first = 0, its.cut.bins.last = kSelectBins - 1;
      its.cut.count = 0, its.cut.before = its.cut.with = its.cut.total = 0;
    }
    its.place = place, its.target = high_product(its.target, its.cut.with);
    its.to_cut = binned ? row_to_cut(its.cut.bins.first, above_middle(most, factor), its.power) : 1;
    its.places.set(its.rule, most, its.cut.bins);
  }
  __syncthreads();
  if (its.target >= its.cut.before) {
    const long long id = token_at_cut<kConfig>(anew(args), row);
    if (id >= 0) return id;
  }
  // The first bin that goes beyond it.
  const unsigned long long target = its.target;
  if (me < kSelectBins && (me == 0 || its.mass_to[me - 1] <= target) && its.mass_to[me] > target)
    its.bin = static_cast<int>(me);
  __syncthreads();
  return token_in_bin<kConfig>(args, row, its.bin);
}

// A row's token.
template <SampleConfig kConfig>
__device__ __forceinline__ void choose_in_row(const SampleArgs& args, long long row) {
  const auto chunk_at = [&](long long c) -> const SampleChunk& {
    const SampleArgs& now = anew(args);
    return now.found[row * now.chunks + c];
  };
  float most = kNoToken;
  TokenKey best = 0;
  // Numbers of the row and of its draw are on their way while chunks are read.
  if (!args.greedy) know_row(args, row);
#pragma unroll 1
  for (long long c = select_thread(); c < args.chunks; c += kSelectThreads) {
    const SampleChunk& chunk = chunk_at(c);
    most = chunk.most > most ? chunk.most : most;
    const TokenKey key = chunk.best >= 0 ? token_key(chunk.most, c * kSampleChunk + chunk.best) : 0;
    best = key > best ? key : best;
  }
  most = largest_of_block(most);
  const bool greedy = args.greedy || sampled_row().rule.greedy;
  long long id = -1;
  if (most != kNoToken) id = greedy ? key_id(largest_key(best)) : draw_in_row<kConfig>(args, row, most);
  if (select_thread() != 0) return;
  const SampleArgs& to = anew(args);
  to.ids[row * to.id_words] = static_cast<int>(id);
  if (to.id_words == 2) to.ids[row * 2 + 1] = static_cast<int>(id >> 32);
  if (to.log_probabilities == nullptr) return;
  // Its logarithm among all, by sums of chunks in their order.
  const float inverse = own_rule(to, row).inverse;
  float sum = 0;
#pragma unroll 1
  for (long long c = 0; c < to.chunks; ++c) {
    const SampleChunk& chunk = chunk_at(c);
    const float d = __fmul_rn(scaled_difference(chunk.most, most, inverse), kLog2E);
    sum = chunk.most == kNoToken ? sum : __fmaf_rn(chunk.sum, exp2_approx(d), sum);
  }
  const char* const logits = logits_of<kConfig>(to, row);
  const float d = id < 0 ? sum : scaled_difference(logit_at<kConfig>(to, logits, id), most, inverse);
  to.log_probabilities[row] = id < 0 ? __builtin_bit_cast(float, 0x7FC00000u) : __fadd_rn(d, -log_of_sum(sum));
}

template <SampleConfig kConfig>
__device__ __forceinline__ void sample_gpu(const SampleArgs& given) {
  if (given.step == SampleStep::kFind) return find_in_chunks<kConfig>(given);
  wait_for_previous_kernel();
#pragma unroll 1
  for (long long row = blockIdx.x; row < anew(given).rows; row += anew(given).grid) {
    choose_in_row<kConfig>(anew(given), row);
  }
}

}  // namespace tilewright
