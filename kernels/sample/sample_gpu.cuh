// SPDX-License-Identifier: MIT
// sample_gpu: two steps. Chunks of a row have a block each, which finds the largest logit, and bins of the tokens where the row is not greedy. Then a
// block a row draws a bin, and the token in it from the one chunk that has it; where the bin holds the end of the choice, it reads the row
// again for the tokens there. Typed by its config, or at run time.
#pragma once

#include "sample/sample_cut.cuh"
#include "tile/common/quotient.hpp"

namespace tilewright {

// A chunk alone.
template <SampleConfig kConfig>
__device__ __forceinline__ void find_in_chunk(const SampleArgs& args, long long item, const ChunkPart<kConfig>& part) {
  SampleRule rule{args.greedy};
  if (!args.greedy) set_temperature(rule, part.temperature), rule.top_k = limited_top_k(part.top_k, args.vocabulary);
  rule.inverse = own(rule.inverse);
  const SampleWorkspace work = sample_workspace(args);
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
  TokenKey best = 0;
  if (rule.greedy) {
    // Elements of a thread ascend.
    int first = -1;
#pragma unroll
    for (int e = part.kPieces * kRowPiece - 1; e >= 0; --e) {
      first = part.p[e / kRowPiece].v[e % kRowPiece] == most ? e : first;
    }
    if (first >= 0 && most != kNoToken) best = token_key(most, part.id(first / kRowPiece, first % kRowPiece));
    best = largest_key(best);
  } else {
    // Bins begin at the chunk's largest logit. What has no mass is not counted.
    SelectShared& shared = select_shared();
    clear_bins();
    const float factor = place_factor(rule), place = place_of(most, factor), least = __fadd_rn(place, -kBinsWidth);
    const bool counts = kCountsAll || rule.top_k != kAllTokens;
    const auto add_all = [&]<bool kCounts>() {
#pragma unroll
      for (int j = 0; j < part.kPieces; ++j) {
        // All of a piece are known before one is added, so that none waits for a branch.
        unsigned bin[kRowPiece], mass[kRowPiece];
        for_elements([&](int i) {
          const float x = renewed(part.p[j].v[i]), at = at_least(place_of(x, factor), least);
          bin[i] = place_bits(place) - place_bits(at), mass[i] = bin_mass(x, factor, at);
        });
        for_elements([&](int i) {
          if (kCounts && mass[i] != 0) add_shared(&shared.count[bin[i]], 1);
          if (mass[i] != 0) add_shared(&shared.mass_low[bin[i]], mass[i]);
        });
      }
    };
    if (has_places(place, /*of_row=*/false))
      counts ? add_all.template operator()<true>() : add_all.template operator()<false>();
    __syncthreads();
    const unsigned bin = select_thread();
    if (bin < kSelectBins) {
      work.bins[item].mass[bin] = shared.mass_low[bin];
      if (counts) work.bins[item].count[bin] = shared.count[bin];
    }
  }
  if (select_thread() == 0) work.chunks[item] = {most, sum, best == 0 ? -1 : key_id(best)};
}

// The token of a bin, in the order of ids, with whose mass more than its share of the bin's is reached.
template <SampleConfig kConfig>
__device__ __forceinline__ long long token_in_bin(const SampleArgs& given, long long row, int bin) {
  const SampleArgs& args = anew(given);
  const SampleWorkspace work = sample_workspace(args);
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
      const int at = bin - bins_behind(its.place, place_of(work.chunks[item].most, place_factor(its.rule)));
      mass = at >= 0 ? work.bins[item].mass[at] : 0;
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
  const auto is_in = [&](int j) {
    const auto mass_of = [&](int i) {
      const float x = part.p[j].v[i];
      return place_of(x, factor) == wanted ? bin_mass(x, factor, wanted) : 0;
    };
    unsigned mass = 0;
    for_elements([&](int i) { mass += mass_of(i); });
    const ThreadBeyond found = first_beyond(mass, target);
    target -= found.before;
    if (static_cast<int>(select_thread()) == found.thread) {
      unsigned long long sum = 0;
      bool drawn = false;
      for_elements([&](int i) {
        sum += mass_of(i);
        if (!drawn && sum > target) drawn = true, shared.found.key = static_cast<TokenKey>(part.id(j, i));
      });
    }
    return found.thread >= 0;
  };
  static_assert(part.kPieces == 2);
  if (!is_in(0)) is_in(1);
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
  return first_beyond(sum, kAllMass).before;
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
// The token at the cut that a row's numbers name, or -1 where they name one before it.
template <SampleConfig kConfig>
__device__ __forceinline__ long long token_at_cut(const SampleArgs& args, long long row) {
  const SampledRow& its = sampled_row();
  const int gathered = anew(gather<kConfig>(anew(args), row));
  const auto each = [&](auto&& body) { for_cut<kConfig>(args, row, gathered, body); };
  // The end is sought for the mass of the k, for what is left, and for the token.
  enum { kOfTheK, kLeft, kToken };
  int step = anew(weighs_the_k(args, its.rule) ? kOfTheK : kLeft);
  ChoiceLimits limits{its.rule.top_k, kAllMass};
  if (its.rule.has_top_p && step == kLeft) {
    limits.mass = limit_at_cut(its.cut.total > 0 ? its.cut.total : mass_above(kNoToken, each));
  }
#pragma unroll 1
  for (;; ++step) {
    const ChoiceEnd found = find_end(step == kToken ? 0 : its.cut.count, 0, limits, true, each);
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

// Field by field: a whole struct would take its way through local memory.
__device__ __forceinline__ void store_rule(const SampleArgs& args, long long row) {
  SampleRule& to = sampled_row().rule;
  const SampleRule rule = own_rule(args, row);
  to.greedy = rule.greedy, to.inverse = rule.inverse, to.top_k = rule.top_k, to.has_top_p = rule.has_top_p;
  to.share = rule.share, to.floor = rule.floor, to.seed = rule.seed, to.offset = rule.offset;
}

// The token of a row that is not greedy.
template <SampleConfig kConfig>
__device__ __forceinline__ long long draw_in_row(const SampleArgs& args, long long row, float most) {
  SampledRow& its = sampled_row();
  const unsigned me = select_thread();
  __syncthreads();
  if (me == 0) store_rule(args, row), its.power = mass_power(args.vocabulary);
  __syncthreads();
  const float factor = place_factor(its.rule), place = place_of(most, factor);
  // Without places all of the row is at the cut.
  const bool binned = has_places(place, /*of_row=*/true);
  if (binned) merge_bins(anew(args), row, most);
  if (me == 0) {
    if (!binned) {
      its.cut.bins.first = 0, its.cut.bins.last = kSelectBins - 1;
      its.cut.count = 0, its.cut.before = its.cut.with = its.cut.total = 0;
    }
    const DrawNumbers numbers = draw_numbers(its.rule, 0);
    its.place = place, its.token = numbers.token, its.target = high_product(numbers.bin, its.cut.with);
    its.to_cut = binned ? row_to_cut(its.cut.bins.first, above_middle(most, factor), its.power) : 1;
    its.places.set(its.rule, most, its.cut.bins);
  }
  __syncthreads();
  if (its.target >= its.cut.before) {
    const long long id = token_at_cut<kConfig>(anew(args), row);
    if (id >= 0) return id;
  }
  const unsigned long long mass = me < kSelectBins - 1 ? bin_among_row(me, its.mass[me], its.power) : 0;
  return token_in_bin<kConfig>(args, row, first_beyond(mass, its.target).thread);
}

// A row's token.
template <SampleConfig kConfig>
__device__ __forceinline__ void choose_in_row(const SampleArgs& args, long long row) {
  const auto chunk_at = [&](long long c) -> const SampleChunk& {
    const SampleArgs& now = anew(args);
    return sample_workspace(now).chunks[row * now.chunks + c];
  };
  float most = kNoToken;
  TokenKey best = 0;
  const bool greedy = own_rule(args, row).greedy;
#pragma unroll 1
  for (long long c = select_thread(); c < args.chunks; c += kSelectThreads) {
    const SampleChunk& chunk = chunk_at(c);
    most = chunk.most > most ? chunk.most : most;
    const TokenKey key = chunk.best >= 0 ? token_key(chunk.most, chunk.best) : 0;
    best = key > best ? key : best;
  }
  most = largest_of_block(most);
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
  if (given.step == SampleStep::kFind) {
    const long long items = given.rows * given.chunks;
    if (blockIdx.x >= items) return;
    if constexpr (kAsksAhead) {
      // The next chunk is on its way while this one is counted. Rows and chunks go on by as much each time: a division takes fifty instructions.
      Quotient of = divided_by(blockIdx.x, given.chunks);
      const Quotient step = divided_by(given.grid, given.chunks);
      ChunkPart<kConfig> next(given, of.whole, of.rest);
      next.ask();
#pragma unroll 1
      for (long long item = blockIdx.x; item < items; item += given.grid) {
        ChunkPart<kConfig> part = next;
        part.clean();
        of.whole += step.whole, of.rest += step.rest;
        if (of.rest >= given.chunks) of.rest -= given.chunks, ++of.whole;
        if (item + given.grid < items) next = ChunkPart<kConfig>(given, of.whole, of.rest), next.ask();
        find_in_chunk<kConfig>(given, item, part);
      }
    } else {
#pragma unroll 1
      for (long long item = blockIdx.x; item < items; item += anew(given).grid) {
        const Quotient of = divided_by(item, anew(given).chunks);
        ChunkPart<kConfig> part(anew(given), of.whole, of.rest);
        part.load();
        find_in_chunk<kConfig>(anew(given), item, part);
      }
    }
    return;
  }
  wait_for_previous_kernel();
#pragma unroll 1
  for (long long row = blockIdx.x; row < anew(given).rows; row += anew(given).grid) {
    choose_in_row<kConfig>(anew(given), row);
  }
}

}  // namespace tilewright
