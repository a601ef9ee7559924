// SPDX-License-Identifier: MIT
// sample_gpu: two steps. Chunks of a row have a block each, which finds the largest logit, and bins of the tokens where the row is not greedy. Then a
// block a row draws a bin, and the token in it from the one chunk that has it; where the bin holds the end of the choice, it reads the row
// again for the tokens there. Typed by its config, or at run time.
#pragma once

#include "sample/sample_cut.cuh"

namespace tilewright {

// A chunk alone.
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
  TokenKey best = 0;
  if (rule.greedy) {
    part.each([&](float x, long long id) {
      const TokenKey key = token_key(x, id);
      best = key > best ? key : best;
    });
    best = largest_key(best);
  } else {
    // Bins begin at the chunk's largest logit. What has no mass is not counted.
    SelectShared& shared = select_shared();
    clear_bins();
    const float factor = place_factor(rule), place = place_of(most, factor), least = __fadd_rn(place, -kBinsWidth);
    const bool counts = kCountsAll || rule.top_k != kAllTokens;
    if (has_places(place, /*of_row=*/false)) {
#pragma unroll
      for (int j = 0; j < part.kPieces; ++j) {
        for_elements([&](int i) {
          const float x = renewed(part.p[j].v[i]), at = at_least(place_of(x, factor), least);
          const unsigned bin = place_bits(place) - place_bits(at), mass = bin_mass(x, factor, at);
          if (mass == 0) return;
          if (counts) add_shared(&shared.count[bin], 1);
          add_shared(&shared.mass_low[bin], mass);
        });
      }
    }
    __syncthreads();
    const unsigned bin = select_thread();
    if (bin < kSelectBins) {
      work.bins[item].mass[bin] = shared.mass_low[bin];
      if (counts) work.bins[item].count[bin] = shared.count[bin];
    }
  }
  if (select_thread() == 0) work.chunks[item] = {most, sum, best == 0 ? -1 : key_id(best)};
}

// The token of a bin, in the order of ids, with whose mass more than its share `number` of the bin's is reached.
template <SampleConfig kConfig>
__device__ __forceinline__ long long token_in_bin(const SampleArgs& args, long long row, float most, int bin,
                                                  unsigned long long number) {
  const SampleWorkspace work = sample_workspace(args);
  const float factor = place_factor(own_rule(args, row)), place = place_of(most, factor);
  SelectShared& shared = select_shared();
  unsigned long long target = high_product(number, row_bins()[bin]);
  // The chunk.
  long long chunk = 0;
#pragma unroll 1
  for (; chunk < args.chunks; chunk += kSelectThreads) {
    const long long c = chunk + select_thread();
    unsigned mass = 0;
    if (c < args.chunks) {
      const int at = bin - bins_behind(place, place_of(work.chunks[row * args.chunks + c].most, factor));
      mass = at >= 0 ? work.bins[row * args.chunks + c].mass[at] : 0;
    }
    const ThreadBeyond found = first_beyond(mass, target);
    target -= found.before;
    if (found.thread < 0) continue;
    chunk += found.thread;
    break;
  }
  // The token.
  ChunkPart<kConfig> part{args, logits_of<kConfig>(args, row), chunk * kSampleChunk, {}};
  part.load();
  const float wanted = __fmaf_rn(static_cast<float>(bin), -kBinWidth, place);
#pragma unroll
  for (int j = 0; j < part.kPieces; ++j) {
    unsigned mass = 0;
    const auto mass_of = [&](int i) {
      const float x = part.p[j].v[i];
      return place_of(x, factor) == wanted ? bin_mass(x, factor, wanted) : 0;
    };
    for_elements([&](int i) { mass += mass_of(i); });
    const ThreadBeyond found = first_beyond(mass, target);
    target -= found.before;
    if (found.thread < 0) continue;
    if (static_cast<int>(select_thread()) == found.thread) {
      unsigned long long sum = 0;
      bool drawn = false;
      for_elements([&](int i) {
        sum += mass_of(i);
        if (!drawn && sum > target) drawn = true, shared.found.key = static_cast<TokenKey>(part.id(j, i));
      });
    }
    __syncthreads();
    return static_cast<long long>(shared.found.key);
  }
  return -1;
}

// The token of a row that is not greedy.
template <SampleConfig kConfig>
__device__ __forceinline__ long long draw_in_row(const SampleArgs& args, long long row, float most) {
  const int power = mass_power(args.vocabulary);
  const float factor = place_factor(own_rule(args, row));
  // Without places all of the row is at the cut.
  const bool binned = has_places(place_of(most, factor), /*of_row=*/true);
  SampleCut cut{{0, kSelectBins - 1}, 0, 0, 0, 0};
  if (binned) cut = merge_bins(args, row, most);
  DrawNumbers numbers = draw_numbers(own_rule(args, row), 0);
  unsigned long long target = high_product(numbers.bin, cut.with);
  if (target >= cut.before) {
    const CutPlaces places(own_rule(args, row), most, cut.bins);
    const int gathered = gather<kConfig>(args, row, places);
    const auto each = [&](auto&& body) {
      for_cut<kConfig>(args, row, places, gathered, [&](float x, long long id) { body(CutToken{x, id, places}); });
    };
    const auto mass_of_those = [&](float floor) {
      unsigned long long sum = 0;
      each([&](const CutToken& token) {
        sum += scaled_difference(token.x, most, places.inverse) >= floor ? token.mass() : 0;
      });
      return first_beyond(sum, kAllMass).before;
    };
    const float to_cut = binned ? row_to_cut(cut.bins.first, above_middle(most, factor), power) : 1;
    if (!binned) cut.total = mass_of_those(kNoToken);

    // The end is sought for the mass of the k, for what is left of the row, and for the token.
    const SampleRule rule = own_rule(args, row);
    const auto limit_of = [&](unsigned long long total) {
      const unsigned long long share = share_of(total, rule.share);
      const unsigned long long limit = share > cut.before ? scale_mass(share - cut.before, to_cut) : 0;
      return limit > 0 ? limit : 1;
    };
    enum { kOfTheK, kLeft, kToken };
    int step = weighs_the_k(args, rule) ? kOfTheK : kLeft;
    ChoiceLimits limits{rule.top_k, kAllMass};
    if (rule.has_top_p && step == kLeft) limits.mass = limit_of(cut.total);
    unsigned count = cut.count;
#pragma unroll 1
    for (; step <= kToken; ++step) {
      const ChoiceEnd found = find_end(count, 0, limits, true, each);
      if (step == kToken) return key_id(found.key);
      if (step == kOfTheK) {
        limits.mass = limit_of(cut.before + scale_mass(found.mass, 1 / to_cut));
        continue;
      }
      unsigned long long left = found.mass;
      if (has_floor(rule)) {
        const unsigned long long above = mass_of_those(rule.floor);
        left = above < left ? above : left;
      }
      // Where what is left does not reach so far, again among what is left.
      const unsigned long long left_of_row = scale_mass(left, 1 / to_cut);
      bool taken = cut.before == 0 || target - cut.before < left_of_row;
      if (!taken) {
        numbers = draw_numbers(rule, 1);
        target = high_product(numbers.bin, cut.before + left_of_row);
        taken = target >= cut.before;
      }
      if (!taken) break;
      count = 0, limits = {kAllTokens, high_product(numbers.token, left) + 1};
    }
  }
  const unsigned bin = select_thread();
  const unsigned long long mass = bin < kSelectBins - 1 ? bin_among_row(bin, row_bins()[bin], power) : 0;
  return token_in_bin<kConfig>(args, row, most, first_beyond(mass, target).thread, numbers.token);
}

// A row's token.
template <SampleConfig kConfig>
__device__ __forceinline__ void choose_in_row(const SampleArgs& args, long long row) {
  const SampleChunk* const chunks = sample_workspace(args).chunks + row * args.chunks;
  float most = kNoToken;
#pragma unroll 1
  for (long long c = select_thread(); c < args.chunks; c += kSelectThreads) {
    most = chunks[c].most > most ? chunks[c].most : most;
  }
  most = largest_of_block(most);
  long long id = -1;
  if (most != kNoToken && own_rule(args, row).greedy) {
    TokenKey best = 0;
#pragma unroll 1
    for (long long c = select_thread(); c < args.chunks; c += kSelectThreads) {
      const TokenKey key = chunks[c].best < 0 ? 0 : token_key(chunks[c].most, chunks[c].best);
      best = key > best ? key : best;
    }
    id = key_id(largest_key(best));
  } else if (most != kNoToken) {
    id = draw_in_row<kConfig>(args, row, most);
  }
  if (select_thread() != 0) return;
  args.ids[row * args.id_words] = static_cast<int>(id);
  if (args.id_words == 2) args.ids[row * 2 + 1] = static_cast<int>(id >> 32);
  if (args.log_probabilities == nullptr) return;
  // Its logarithm among all, by sums of chunks in their order.
  const float inverse = own_rule(args, row).inverse;
  float sum = 0;
#pragma unroll 1
  for (long long c = 0; c < args.chunks; ++c) {
    const SampleChunk chunk = chunks[c];
    const float d = __fmul_rn(scaled_difference(chunk.most, most, inverse), kLog2E);
    sum = chunk.most == kNoToken ? sum : __fmaf_rn(chunk.sum, exp2_approx(d), sum);
  }
  const char* const logits = logits_of<kConfig>(args, row);
  const float d = id < 0 ? sum : scaled_difference(logit_at<kConfig>(args, logits, id), most, inverse);
  args.log_probabilities[row] = id < 0 ? __builtin_bit_cast(float, 0x7FC00000u) : __fadd_rn(d, -log_of_sum(sum));
}

template <SampleConfig kConfig>
__device__ __forceinline__ void sample_gpu(const SampleArgs& given) {
  const long long items = given.step == SampleStep::kFind ? given.rows * given.chunks : given.rows;
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += anew(given).grid) {
    const SampleArgs& args = anew(given);
    if (args.step == SampleStep::kFind) {
      find_in_chunk<kConfig>(args, item);
    } else {
      choose_in_row<kConfig>(args, item);
    }
  }
}

}  // namespace tilewright
