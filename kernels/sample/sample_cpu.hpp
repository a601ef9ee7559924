// SPDX-License-Identifier: MIT
// sample_cpu: a row is read for its largest logit, for the bins of its tokens, and for the token of the bin that was drawn; where this is at
// the cut, for the tokens there, among which the choice ends, digit by digit of the ordered logits. Typed by its config, or at run time.
#pragma once

#include "sample/sample_row_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Tokens that end a choice: those of a larger key belong to it, and the first `ties` of the same one; `mass` is theirs.
struct SampleThreshold {
  unsigned key, ties;
  unsigned long long mass;
};

// The end among tokens at the cut, before which `before` stand.
inline constexpr int kDigitBits = 11;
template <DType kType>
inline __attribute__((noinline)) SampleThreshold find_threshold(const SampleRow<kType>& row, unsigned before,
                                                                const ChoiceLimits& limits) {
  unsigned count[1 << kDigitBits];
  unsigned long long mass[1 << kDigitBits];
  unsigned prefix = 0;
  unsigned long long mass_before = 0;
  // 11, 11 and 10 bits of the key; what is before the prefix's tokens is counted already.
  for (int low = 21, bits = kDigitBits;; bits = low < kDigitBits ? low : kDigitBits, low -= bits) {
    for (int i = 0; i < 1 << bits; ++i) count[i] = 0, mass[i] = 0;
    row.each_at_cut([&](long long, float x, unsigned long long its) __attribute__((always_inline)) {
      const unsigned key = logit_key(x);
      if (low + bits < 32 && key >> (low + bits) != prefix) return;
      const unsigned digit = key >> low & ((1u << bits) - 1);
      ++count[digit], mass[digit] += its;
    });
    int digit = (1 << bits) - 1;
    for (; digit > 0; --digit) {
      const unsigned c = before + count[digit];
      const unsigned long long m = mass_before + mass[digit];
      if (c >= limits.count || m >= limits.mass) break;
      before = c, mass_before = m;
    }
    prefix = prefix << bits | static_cast<unsigned>(digit);
    if (low > 0) continue;
    // Tokens of one key have the same mass.
    SampleThreshold found{prefix, count[digit], mass_before};
    const unsigned long long each = count[digit] == 0 ? 0 : mass[digit] / count[digit];
    if (limits.count - before < found.ties) found.ties = limits.count - before;
    if (each > 0 && mass_before < limits.mass) {
      const unsigned long long most_ties = (limits.mass - mass_before - 1) / each + 1;
      if (most_ties < found.ties) found.ties = static_cast<unsigned>(most_ties);
    }
    found.mass += each * found.ties;
    return found;
  }
}

// What is left at the cut, in its units; `to_cut` of these are a unit of the row's masses, `before` of which stand before it, with `count`
// tokens.
template <DType kType>
inline unsigned long long mass_at_cut(const SampleRow<kType>& row, unsigned count, unsigned long long before,
                                      unsigned long long total, float to_cut) {
  const SampleRule& rule = row.rule;
  ChoiceLimits limits{rule.top_k, kAllMass};
  if (rule.has_top_p) {
    if (weighs_the_k(row.args, rule)) {
      total = before + scale_mass(find_threshold(row, count, limits).mass, 1 / to_cut);
    }
    const unsigned long long share = share_of(total, rule.share);
    limits.mass = share > before ? scale_mass(share - before, to_cut) : 0;
    if (limits.mass == 0) limits.mass = 1;
  }
  unsigned long long mass = find_threshold(row, count, limits).mass, above = 0;
  if (!has_floor(rule)) return mass;
  row.each_at_cut([&](long long, float x, unsigned long long its) __attribute__((always_inline)) {
    if ((x - row.most) * rule.inverse >= rule.floor) above += its;
  });
  return above < mass ? above : mass;
}

// The token at the cut with whose mass more than `target` is reached.
template <DType kType>
inline long long token_at_cut(const SampleRow<kType>& row, unsigned long long target) {
  const SampleThreshold found = find_threshold(row, 0, {kAllTokens, target + 1});
  long long chosen = -1;
  unsigned ties = found.ties;
  row.each_at_cut([&](long long id, float x, unsigned long long) __attribute__((always_inline)) {
    if (logit_key(x) == found.key && ties > 0 && --ties == 0) chosen = id;
  });
  return chosen;
}

// The token of a row that is not greedy.
template <DType kType>
inline __attribute__((noinline)) long long draw_token(SampleRow<kType>& row) {
  const SampleRule& rule = row.rule;
  DrawNumbers numbers = draw_numbers(rule, 0);
  if (!has_places(row.place, /*of_row=*/true)) {
    // All of the row is one bin.
    row.cut = {0, kSelectBins - 1};
    row.gather_cut();
    unsigned long long all = 0;
    row.each_at_cut([&](long long, float, unsigned long long its) __attribute__((always_inline)) { all += its; });
    return token_at_cut(row, high_product(numbers.token, mass_at_cut(row, 0, 0, all, 1.0f)));
  }

  SampleBinned bins;
  const int power = mass_power(row.args.vocabulary);
  for (int bin = 0; bin < kSelectBins; ++bin) bins.count[bin] = 0, bins.mass[bin] = 0;
  row.weigh_bins(bins);
  bins.weigh(power);

  // Which bins hold the end of the choice. Of the mass of the k, what is before the bin of the k-th tells where it is at least.
  BinRange& cut = row.cut;
  const float above = fma_once(row.most, row.factor, kPlaceOrigin - row.place);
  const unsigned long long total = bins.before(kSelectBins);
  const unsigned long long of_count = rule.top_k == kAllTokens ? kAllMass : rule.top_k;
  cut.last = bins.reach(of_count, kAllMass), cut.first = cut.last;
  if (rule.has_top_p) {
    const bool of_the_k = weighs_the_k(row.args, rule);
    const unsigned long long of = of_the_k ? bins.before(cut.last) : total;
    const int reached = bins.reach(kAllMass, share_of(of, rule.share));
    if (reached < cut.first) cut.first = reached;
    if (!of_the_k) cut.last = cut.first;
  }
  if (has_floor(rule)) cut = with_floor(cut, bins_of_floor(rule.floor, above), weighs_the_k(row.args, rule));

  // A bin; where it is at the cut, and what is left there does not reach so far, again among what is left.
  const unsigned long long before = bins.before(cut.first);
  unsigned long long target = high_product(numbers.bin, bins.before(cut.last + 1));
  if (target >= before) {
    row.gather_cut();
    unsigned count = 0;
    for (int bin = 0; bin < cut.first; ++bin) count += bins.count[bin];
    const float to_cut = power_of_2(static_cast<float>(32 - power) + static_cast<float>(cut.first) * kBinWidth - above);
    const unsigned long long left = mass_at_cut(row, count, before, total, to_cut),
                             left_of_row = scale_mass(left, 1 / to_cut);
    bool taken = before == 0 || target - before < left_of_row;
    if (!taken) {
      numbers = draw_numbers(rule, 1);
      target = high_product(numbers.bin, before + left_of_row);
      taken = target >= before;
    }
    if (taken) return token_at_cut(row, high_product(numbers.token, left));
  }
  int drawn = 0;
  for (; target >= bins.of_row[drawn]; ++drawn) target -= bins.of_row[drawn];
  return row.token_of_bin(drawn, high_product(numbers.token, bins.mass[drawn]));
}

template <DType kType>
TILEWRIGHT_INLINE void sample_row(const SampleArgs& args, long long at) {
  SampleRow<kType> row(args, at);
  long long chosen = -1;
  if (row.most != kNoToken && row.rule.greedy) {
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      if (chosen >= 0) return;
      float lane[kVec];
      row.load(piece).store(lane);
      for (int i = piece.count - 1; i >= 0; --i) chosen = lane[i] == row.most ? piece.n + i : chosen;
    });
  } else if (row.most != kNoToken) {
    chosen = draw_token(row);
  }

  // The token, and its logarithm among all.
  args.ids[at * args.id_words] = static_cast<int>(chosen);
  if (args.id_words == 2) args.ids[at * 2 + 1] = static_cast<int>(chosen >> 32);
  if (args.log_probabilities == nullptr) return;
  float sum[1], logit = __builtin_bit_cast(float, 0x7FC00000u);
  sum_row(args.vocabulary, sum, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
    const F32x16 d = (row.load(piece) - F32x16::splat(row.most)) * F32x16::splat(row.rule.inverse);
    part[0] = part[0] + within_row(exp(d), piece);
  });
  if (chosen >= 0) {
    float lane[kVec];
    row.load(RowPiece<false>{chosen, 1}).store(lane);
    logit = (lane[0] - row.most) * row.rule.inverse - log_of_sum(sum[0]);
  }
  args.log_probabilities[at] = logit;
}

// A unit takes rows that follow each other.
template <SampleConfig kConfig>
void sample_cpu(const SampleArgs& args, unsigned unit, unsigned units) {
  for_share(args.rows, unit, units,
            [&](long long row) __attribute__((always_inline)) { sample_row<kConfig.x>(args, row); });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
