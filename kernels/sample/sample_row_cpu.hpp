// SPDX-License-Identifier: MIT
// What sample_cpu reads a row for: its bins, a token of one of them, the tokens at the cut.
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

// Tokens that are added to their bins' sums: a word has a token's mass and bin. Neighbours have sums of their own, which need not
// wait for each other. Words of a block are made before one is added: CPUs hand on parts of a line late while it is being stored.
inline constexpr int kBinBits = 8;
static_assert(kSelectBins == 1 << kBinBits);
struct SampleBinSums {
  static constexpr int kSums = 4, kCountBit = 40, kBlock = 1024;
  static constexpr long long kMostTokens = kSums << (kCountBit - kBinBits - kBinMassBits - 1);
  alignas(64) unsigned long long of[kSums][kSelectBins];

  TILEWRIGHT_INLINE void clear() { __builtin_memset(of, 0, sizeof(of)); }
  TILEWRIGHT_INLINE void add(int lane, unsigned word) {
    of[lane % kSums][word & (kSelectBins - 1)] += word + (1ull << kCountBit);
  }
  TILEWRIGHT_INLINE void add_all(const unsigned* words, int count) {
    int first = 0;
    for (; first + kVec <= count; first += kVec) {
      unroll<kVec>([&](auto i) __attribute__((always_inline)) { add(i, words[first + i]); });
    }
    for (; first < count; ++first) add(0, words[first]);
  }
  // Each word had its bin below its mass. No token of a bin but the last one has no mass, and of that one no count is wanted.
  inline __attribute__((noinline)) void move_to(SampleBinned& bins) {
    for (int bin = 0; bin < kSelectBins; ++bin) {
      unsigned long long count = 0, words = 0;
      for (auto& sums : of)
        count += sums[bin] >> kCountBit, words += sums[bin] & ((1ull << kCountBit) - 1), sums[bin] = 0;
      bins.count[bin] += static_cast<unsigned>(count);
      bins.mass[bin] += (words - count * static_cast<unsigned>(bin)) >> kBinBits;
    }
  }
};

inline constexpr int kGatheredTokens = 4096;

template <DType kType>
struct SampleRow {
  const SampleArgs& args;
  const char* row;
  DType type;
  SampleRule rule;
  float most, factor, place;  // the largest logit, and its place
  BinRange cut;
  // Tokens at the cut in the order of their ids; -1 = the row is read for them. The last ones are for lanes that do not count.
  int gathered;
  alignas(64) int cut_logits[kGatheredTokens + 2 * kVec];
  int cut_ids[kGatheredTokens + 2 * kVec];

  TILEWRIGHT_INLINE SampleRow(const SampleArgs& a, long long at)
      : args(a), type(kType == DType::kNone ? a.x : kType), rule(sample_rule(a, at)) {
    row = static_cast<const char*>(a.logits) + at * a.stride * dtype_bits(type) / 8;
    most =
        largest_value(a.vocabulary, kNoToken, [&](auto piece) __attribute__((always_inline)) { return load(piece); });
    factor = place_factor(rule), place = fma_once(most, factor, kPlaceOrigin);
  }

  // NaN as minus infinity, plus infinity as the largest number.
  template <class At>
  TILEWRIGHT_INLINE F32x16 load(At piece) const {
    const F32x16 x = load_piece<kType>(row, type, piece);
    return select_nan(x, F32x16::splat(kNoToken), at_most(x, F32x16::splat(kMostLogit)));
  }
  // Bits of the places of a piece's tokens, which count down to the last bin's.
  TILEWRIGHT_INLINE F32x16 places(F32x16 x) const {
    const F32x16 at = fma_once(x, F32x16::splat(factor), F32x16::splat(kPlaceOrigin));
    return at_least(at, F32x16::splat(place - kBinsWidth));
  }
  TILEWRIGHT_INLINE I32x16 bins_of(F32x16 at) const { return as_int(F32x16::splat(place)) - as_int(at); }
  // Masses in units of their bins.
  TILEWRIGHT_INLINE I32x16 masses(F32x16 x, F32x16 at) const {
    const F32x16 octaves = fma_once(x, F32x16::splat(factor), F32x16::splat(kPlaceOrigin) - at);
    const F32x16 unit = F32x16::splat(32);
    // 2^octaves + 32 near a bin's middle, where all tokens are but those of the last bin.
    constexpr float kNear[] = {33.0f, 0x1.62e432p-1f, 0x1.ec0c3ap-3f, 0x1.c69ffap-5f};
    F32x16 with_unit = polynomial(octaves, kNear);
    if (any_less(octaves, F32x16::splat(-kBinWidth))) {
      with_unit = exp2_normal(at_least(octaves, F32x16::splat(-126))) + unit;
    }
    return as_int(with_unit) - as_int(unit);
  }
  // Counts and masses of all bins.
  TILEWRIGHT_INLINE void weigh_bins(SampleBinned& bins) const {
    SampleBinSums sums;
    sums.clear();
    alignas(64) unsigned words[SampleBinSums::kBlock];
    long long since = 0;
    for (long long first = 0; first < args.vocabulary; first += SampleBinSums::kBlock) {
      const long long rest = args.vocabulary - first;
      const int count = rest < SampleBinSums::kBlock ? static_cast<int>(rest) : SampleBinSums::kBlock;
      for_pieces(count, [&](auto piece) __attribute__((always_inline)) {
        const F32x16 x = load(RowPiece<piece.whole>{first + piece.n, piece.count}), at = places(x);
        (shift_left<kBinBits>(masses(x, at)) | bins_of(at)).store(words + piece.n);
      });
      sums.add_all(words, count);
      if (since += count; since < SampleBinSums::kMostTokens) continue;
      sums.move_to(bins), since = 0;
    }
    sums.move_to(bins);
  }
  // The first token of a bin with whose mass more than `target` is reached.
  TILEWRIGHT_INLINE long long token_of_bin(int bin, unsigned long long target) const {
    const I32x16 drawn = I32x16::splat(bin);
    long long chosen = -1;
    unsigned long long sum = 0;
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      if (chosen >= 0) return;
      const F32x16 x = load(piece), at = places(x);
      if (!any_equal(bins_of(at), drawn)) return;
      int its[kVec], mass[kVec];
      bins_of(at).store(its), masses(x, at).store(mass);
      for (int i = 0; i < piece.count; ++i) {
        if (its[i] != bin) continue;
        sum += static_cast<unsigned>(mass[i]);
        if (chosen < 0 && sum > target) chosen = piece.n + i;
      }
    });
    return chosen;
  }

  // Ones where a piece's tokens are at the cut, else zeros.
  TILEWRIGHT_INLINE I32x16 at_cut(F32x16 x) const {
    const float upper = cut.first == 0 ? -kNoToken : place - static_cast<float>(cut.first) * kBinWidth;
    const float lower = cut.last == kSelectBins - 1 ? kNoToken : place - static_cast<float>(cut.last) * kBinWidth;
    const F32x16 at = fma_once(x, F32x16::splat(factor), F32x16::splat(kPlaceOrigin)), no = F32x16::splat(0);
    const F32x16 is_token = select_less(F32x16::splat(kNoToken), x, F32x16::splat(1), no);
    return as_int(select_less(at, F32x16::splat(lower), no, select_less(F32x16::splat(upper), at, no, is_token)));
  }
  // Remembers the tokens at the cut, unless there are too many.
  TILEWRIGHT_INLINE void gather_cut() {
    int count = 0;
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      if (count > kGatheredTokens) return;
      const F32x16 x = load(piece);
      const I32x16 none = I32x16::splat(0);
      I32x16 are = at_cut(x);
      if (!any_greater(are, none)) return;
      const I32x16 up = I32x16::load(kCountUp), id = I32x16::splat(static_cast<int>(piece.n)) + up;
      if constexpr (!piece.whole) are = select_greater(I32x16::splat(piece.count), up, are, none);
      count += pack_greater(are, none, as_int(x), id, cut_logits + count, cut_ids + count);
    });
    gathered = count <= kGatheredTokens ? count : -1;
  }
  // body(id, logit, mass) of the tokens at the cut, mass in units of the cut.
  template <class Body>
  TILEWRIGHT_INLINE void each_at_cut(Body&& body) const {
    const float behind = static_cast<float>(cut.first) * (kBinWidth / kLog2E);
    const auto share_of_token = [&](F32x16 x) __attribute__((always_inline)) {
      return exp((x - F32x16::splat(most)) * F32x16::splat(rule.inverse) + F32x16::splat(behind));
    };
    float lane[kVec], share[kVec];
    if (gathered >= 0) {
      for (int first = 0; first < gathered; first += kVec) {
        const F32x16 x = F32x16::load(cut_logits + first);
        x.store(lane), share_of_token(x).store(share);
        for (int i = 0; i < kVec && first + i < gathered; ++i) {
          body(cut_ids[first + i], lane[i], whole_mass(share[i] * kCutMassUnit));
        }
      }
      return;
    }
    for_pieces(args.vocabulary, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 x = load(piece);
      const I32x16 are = at_cut(x);
      if (!any_greater(are, I32x16::splat(0))) return;
      int is[kVec];
      are.store(is), x.store(lane), share_of_token(x).store(share);
      for (int i = 0; i < piece.count; ++i) {
        if (is[i] != 0) body(piece.n + i, lane[i], whole_mass(share[i] * kCutMassUnit));
      }
    });
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
