// SPDX-License-Identifier: MIT
// sample_cpu: a row is read for its largest logit, where top_k or top_p want it for the cut, digit by digit of the ordered logits, and
// for the draw. Typed by its config, or at run time.
#pragma once

#include "sample/sample_args.hpp"
#include "tile/cpu/row.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// The logarithm of a positive number.
TILEWRIGHT_INLINE float log_of(float x) { return x >= 1 ? log_of_sum(x) : -log_of_sum(1 / x); }
TILEWRIGHT_INLINE float gumbel_of(unsigned word) {
  const float t = share_of_word(word);
  return -log_of(t < kSmallShare ? small_exponential(t) : log_of_sum(1 / (1 - t)));
}

// A row's logits: NaN as minus infinity, plus infinity as the largest number.
template <DType kType>
struct SampleRow {
  const SampleArgs& args;
  const char* row;
  DType type;

  template <class At>
  TILEWRIGHT_INLINE F32x16 load(At piece) const {
    const F32x16 x = load_piece<kType>(row, type, piece);
    return select_nan(x, F32x16::splat(kNoToken), at_most(x, F32x16::splat(kMostLogit)));
  }
  // body(id, logit, share) of every token, `share` of the most likely one's mass where kShares.
  template <bool kShares, class Body>
  TILEWRIGHT_INLINE void each(float most, float inverse, Body&& body) const {
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 x = load(piece);
      float lane[kVec], share[kVec];
      x.store(lane);
      if constexpr (kShares) exp((x - F32x16::splat(most)) * F32x16::splat(inverse)).store(share);
      for (int i = 0; i < piece.count; ++i) body(piece.n + i, lane[i], kShares ? share[i] : 0.0f);
    });
  }
};

// Tokens of a larger key belong to the choice, and the first `ties` of the same one; `mass` is theirs.
struct SampleThreshold {
  unsigned key, ties;
  unsigned long long mass;
};

inline constexpr int kDigitBits = 11;
template <DType kType>
inline __attribute__((noinline)) SampleThreshold find_threshold(const SampleRow<kType>& row, float most, float inverse,
                                                                const ChoiceLimits& limits) {
  unsigned count[1 << kDigitBits];
  unsigned long long mass[1 << kDigitBits];
  unsigned prefix = 0, before = 0;
  unsigned long long mass_before = 0;
  // 11, 11 and 10 bits of the key; what is before the prefix's tokens is counted already.
  for (int low = 21, bits = kDigitBits;; bits = low < kDigitBits ? low : kDigitBits, low -= bits) {
    for (int i = 0; i < 1 << bits; ++i) count[i] = 0, mass[i] = 0;
    row.template each<true>(most, inverse, [&](long long, float x, float share) __attribute__((always_inline)) {
      const unsigned key = logit_key(x);
      if (x == kNoToken || (low + bits < 32 && key >> (low + bits) != prefix)) return;
      const unsigned digit = key >> low & ((1u << bits) - 1);
      ++count[digit], mass[digit] += whole_mass(share);
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

template <DType kType>
TILEWRIGHT_INLINE void sample_row(const SampleArgs& args, long long at) {
  const DType type = kType == DType::kNone ? args.x : kType;
  const SampleRow<kType> row{args, static_cast<const char*>(args.logits) + at * args.stride * dtype_bits(type) / 8,
                             type};
  const SampleRule rule = sample_rule(args, at);
  const float most = largest_value(args.vocabulary, kNoToken,
                                   [&](auto piece) __attribute__((always_inline)) { return row.load(piece); });
  long long chosen = -1;
  float logit = 0;
  if (most != kNoToken && rule.greedy) {
    row.template each<false>(most, 1, [&](long long id, float x, float) __attribute__((always_inline)) {
      if (chosen < 0 && x == most) chosen = id, logit = x;
    });
  } else if (most != kNoToken) {
    // Where the choice ends.
    SampleThreshold least{0, 0, 0};
    if (has_cut(rule)) {
      ChoiceLimits limits{rule.top_k, kAllMass};
      if (rule.has_top_p && args.joint == SampleJoint::kTopKFirst && rule.top_k != kAllTokens) {
        limits.mass = share_of(find_threshold(row, most, rule.inverse, limits).mass, rule.share);
      } else if (rule.has_top_p) {
        unsigned long long total = 0;
        row.template each<true>(most, rule.inverse,
                                [&](long long, float x, float share) __attribute__((always_inline)) {
                                  if (x != kNoToken) total += whole_mass(share);
                                });
        limits.mass = share_of(total, rule.share);
      }
      least = find_threshold(row, most, rule.inverse, limits);
    }

    // The race.
    float best = kNoToken;
    unsigned ties = least.ties;
    long long quad = -1;
    PhiloxWords words{};
    row.template each<false>(most, 1, [&](long long id, float x, float) __attribute__((always_inline)) {
      const unsigned key = logit_key(x);
      const float d = (x - most) * rule.inverse;
      if (x == kNoToken || key < least.key) return;
      if (least.key != 0 && key == least.key && ties-- == 0) {
        ties = 0;
        return;
      }
      if (d < rule.floor) return;
      if (id / 4 != quad) quad = id / 4, words = philox(rule.seed, rule.offset, static_cast<unsigned>(quad));
      const float score = d + gumbel_of(words.word[id % 4]);
      if (score > best) best = score, chosen = id, logit = x;
    });
  }

  // The token, and its logarithm among all.
  args.ids[at * args.id_words] = static_cast<int>(chosen);
  if (args.id_words == 2) args.ids[at * 2 + 1] = static_cast<int>(chosen >> 32);
  if (args.log_probabilities == nullptr) return;
  float sum[1];
  sum_row(args.vocabulary, sum, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
    const F32x16 d = (row.load(piece) - F32x16::splat(most)) * F32x16::splat(rule.inverse);
    part[0] = part[0] + within_row(exp(d), piece);
  });
  args.log_probabilities[at] =
      chosen < 0 ? __builtin_bit_cast(float, 0x7FC00000u) : (logit - most) * rule.inverse - log_of_sum(sum[0]);
}

// A unit takes rows that follow each other.
template <SampleConfig kConfig>
void sample_cpu(const SampleArgs& args, unsigned unit, unsigned units) {
  const auto edge = [&](unsigned of) {
    const long long each = args.rows / units, more = args.rows % units;
    return of * each + (of < more ? of : more);
  };
  for (long long row = edge(unit); row < edge(unit + 1); ++row) sample_row<kConfig.x>(args, row);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
