// SPDX-License-Identifier: MIT
// sample_cpu: a row is read for its largest logit, for the bins of its tokens, and for the token of the bin that was drawn; where this is at
// the cut, for the end of the choice too, digit by digit of the ordered logits. Typed by its config, or at run time.
#pragma once

#include "sample/sample_draw.hpp"
#include "tile/cpu/row.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// x * y + z, rounded once on every CPU.
TILEWRIGHT_INLINE F32x16 fma_once(F32x16 x, F32x16 y, F32x16 z) {
#if TILEWRIGHT_AVX2
  return fma(x, y, z);
#else
  float a[kVec], b[kVec], c[kVec];
  x.store(a), y.store(b), z.store(c);
  for (int i = 0; i < kVec; ++i) a[i] = static_cast<float>(static_cast<double>(a[i]) * b[i] + c[i]);
  return F32x16::load(a);
#endif
}
TILEWRIGHT_INLINE float fma_once(float x, float y, float z) {
  return static_cast<float>(static_cast<double>(x) * y + z);
}
// 2^x of -126 and more.
TILEWRIGHT_INLINE float power_of_2(float x) {
  float lane[kVec];
  exp2_normal(F32x16::splat(x)).store(lane);
  return lane[0];
}

// Tokens that end a choice: those of a larger key belong to it, and the first `ties` of the same one; `mass` is theirs.
struct SampleThreshold {
  unsigned key, ties;
  unsigned long long mass;
};

// A row's bins.
struct SampleBinned {
  unsigned count[kSelectBins];
  unsigned long long mass[kSelectBins];    // each in units of its own
  unsigned long long of_row[kSelectBins];  // in those of the row

  TILEWRIGHT_INLINE void weigh(int power) {
    for (int first = 0; first < kSelectBins; first += kVec) {
      float unit[kVec];
      for (int i = 0; i < kVec; ++i) {
        unit[i] = static_cast<float>(power - kBinMassBits) - static_cast<float>(first + i) * kBinWidth;
      }
      exp2_normal(F32x16::load(unit)).store(unit);
      for (int i = 0; i < kVec; ++i) of_row[first + i] = scale_mass(mass[first + i], unit[i]);
    }
  }
  // Of bins before `last`.
  unsigned long long before(int last) const {
    unsigned long long sum = 0;
    for (int bin = 0; bin < last; ++bin) sum += of_row[bin];
    return sum;
  }
  // The first bin up to which so many are, or so much; the last one if none is.
  int reach(unsigned long long of_count, unsigned long long of_mass) const {
    unsigned long long counted = 0, weighed = 0;
    for (int bin = 0; bin < kSelectBins - 1; ++bin) {
      counted += count[bin], weighed += of_row[bin];
      if (counted >= of_count || weighed >= of_mass) return bin;
    }
    return kSelectBins - 1;
  }
};

template <DType kType>
struct SampleRow {
  const SampleArgs& args;
  const char* row;
  DType type;
  SampleRule rule;
  float most, factor, place;  // the largest logit, and its place
  BinRange cut;

  // NaN as minus infinity, plus infinity as the largest number.
  template <class At>
  TILEWRIGHT_INLINE F32x16 load(At piece) const {
    const F32x16 x = load_piece<kType>(row, type, piece);
    return select_nan(x, F32x16::splat(kNoToken), at_most(x, F32x16::splat(kMostLogit)));
  }
  // body(id, bin, mass) of every token, mass in units of its bin.
  template <class Body>
  TILEWRIGHT_INLINE void each_in_bins(Body&& body) const {
    const F32x16 origin = F32x16::splat(kPlaceOrigin), by = F32x16::splat(factor), unit = F32x16::splat(32);
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 x = load(piece), at = at_least(fma_once(x, by, origin), F32x16::splat(place - kBinsWidth));
      const F32x16 share = exp2_normal(at_least(fma_once(x, by, origin - at), F32x16::splat(-126)));
      int bin[kVec], mass[kVec];
      (as_int(F32x16::splat(place)) - as_int(at)).store(bin);
      (as_int(share + unit) - as_int(unit)).store(mass);
      for (int i = 0; i < piece.count; ++i) body(piece.n + i, bin[i], static_cast<unsigned>(mass[i]));
    });
  }
  // body(id, logit, mass) of the tokens at the cut, mass in units of the cut.
  template <class Body>
  TILEWRIGHT_INLINE void each_at_cut(Body&& body) const {
    const float upper = cut.first == 0 ? -kNoToken : place - static_cast<float>(cut.first) * kBinWidth;
    const float lower = cut.last == kSelectBins - 1 ? kNoToken : place - static_cast<float>(cut.last) * kBinWidth;
    const float behind = static_cast<float>(cut.first) * (kBinWidth / kLog2E);
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 x = load(piece), d = (x - F32x16::splat(most)) * F32x16::splat(rule.inverse);
      float lane[kVec], at[kVec], share[kVec];
      x.store(lane);
      fma_once(x, F32x16::splat(factor), F32x16::splat(kPlaceOrigin)).store(at);
      exp(d + F32x16::splat(behind)).store(share);
      for (int i = 0; i < piece.count; ++i) {
        if (lane[i] == kNoToken || at[i] > upper || at[i] < lower) continue;
        body(piece.n + i, lane[i], whole_mass(share[i] * kCutMassUnit));
      }
    });
  }
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
    unsigned long long all = 0;
    row.each_at_cut([&](long long, float, unsigned long long its) __attribute__((always_inline)) { all += its; });
    return token_at_cut(row, high_product(numbers.token, mass_at_cut(row, 0, 0, all, 1.0f)));
  }

  SampleBinned bins;
  const int power = mass_power(row.args.vocabulary);
  for (int bin = 0; bin < kSelectBins; ++bin) bins.count[bin] = 0, bins.mass[bin] = 0;
  row.each_in_bins([&](long long, int bin, unsigned mass) __attribute__((always_inline)) {
    bins.count[bin] += mass != 0 ? 1 : 0, bins.mass[bin] += mass;
  });
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
  target = high_product(numbers.token, bins.mass[drawn]);
  long long chosen = -1;
  unsigned long long sum = 0;
  row.each_in_bins([&](long long id, int bin, unsigned mass) __attribute__((always_inline)) {
    if (bin != drawn) return;
    sum += mass;
    if (chosen < 0 && sum > target) chosen = id;
  });
  return chosen;
}

template <DType kType>
TILEWRIGHT_INLINE void sample_row(const SampleArgs& args, long long at) {
  const DType type = kType == DType::kNone ? args.x : kType;
  const char* const from = static_cast<const char*>(args.logits) + at * args.stride * dtype_bits(type) / 8;
  SampleRow<kType> row{args, from, type, sample_rule(args, at), 0, 0, 0, {0, 0}};
  row.most = largest_value(args.vocabulary, kNoToken,
                           [&](auto piece) __attribute__((always_inline)) { return row.load(piece); });
  row.factor = place_factor(row.rule), row.place = fma_once(row.most, row.factor, kPlaceOrigin);
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
