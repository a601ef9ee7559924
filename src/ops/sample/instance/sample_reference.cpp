// SPDX-License-Identifier: MIT
// The float64 yardstick of sample.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor/tolerance.hpp"
#include "ops/sample/instance/sample_instance.hpp"

namespace tilewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Masses of tokens are whole numbers of 2^-18 of their bin's middle, which approximations of exponentials and of units come on top of.
constexpr double kMassError = 0x1p-17;

double largest_logit(const SampleReferenceRow& row) { return *std::ranges::max_element(row.logits); }
double difference(const SampleReferenceRow& row, double most, double x) { return (x - most) * row.inverse; }

// A row's tokens in the order of their logits, in bins, and what a draw makes of them.
class SampleYardstick {
 public:
  SampleYardstick(const SampleProblem& p, const SampleReferenceRow& row)
      : p_(p), row_(row), all_(row.logits.size()), most_(largest_logit(row)), order_(all_), place_(all_) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, [&](size_t a, size_t b) { return row.logits[a] > row.logits[b]; });
    for (size_t j = 0; j < all_; ++j) place_[order_[j]] = j;
    // Masses up to each token, and what they err.
    mass_.resize(all_ + 1), error_.resize(all_ + 1);
    for (size_t j = 0; j < all_; ++j) {
      const double d = difference(row, most_, row.logits[order_[j]]), e = std::exp(d);
      mass_[j + 1] = mass_[j] + e;
      error_[j + 1] = error_[j] + (e > 0 ? e * (exponential_bound(d) + kMassError) : 0) + 0x1p-40;
    }
    // Which tokens a bin has, as every kernel tells it; without places all are in one.
    const float factor = place_factor(row.rule), top = std::fma(static_cast<float>(most_), factor, kPlaceOrigin);
    binned_ = has_places(top, /*of_row=*/true);
    above_ = std::fma(static_cast<float>(most_), factor, kPlaceOrigin - top);
    size_t j = 0;
    for (int bin = 0; bin < kSelectBins; ++bin) {
      const auto is_in = [&](double x) {
        return !binned_ || bin == kSelectBins - 1 ||
               std::fma(static_cast<float>(x), factor, kPlaceOrigin) >= top - static_cast<float>(bin) * kBinWidth;
      };
      while (j < all_ && is_in(row.logits[order_[j]])) ++j;
      end_[bin + 1] = j;
    }
  }

  // Of every token: 1 surely of the choice, -1 surely not; 0: so near the end of what top_p or min_p leave that f32 may err either way.
  std::vector<int> support() const {
    std::vector<int> support(all_, 1);
    const size_t count = std::min<size_t>(row_.rule.top_k, all_);
    const size_t of = p_.joint == SampleJoint::kTopKFirst ? count : all_;
    const double limit = row_.top_p * mass_[of], allowed = row_.top_p * error_[of] + mass_[of] * 0x1p-31;
    const double floor = row_.min_p > 0 ? std::log(std::min(row_.min_p, 1.0)) : -kInfinity;
    for (size_t j = 0; j < all_; ++j) {
      int& at = support[order_[j]];
      const double x = row_.logits[order_[j]], d = difference(row_, most_, x);
      if (j >= count) at = -1;
      if (row_.rule.has_top_p && j > 0 && at >= 0) {
        const double unsure = allowed + error_[j];
        at = mass_[j] >= limit + unsure ? -1 : mass_[j] + unsure < limit ? at : 0;
      }
      if (row_.min_p > 0 && at >= 0 && d < 0) {
        const double unsure = kUlpF32 * (8 * std::fabs(floor) + 8 * std::fabs(d) + 8);
        at = d < floor - unsure ? -1 : d >= floor + unsure ? at : 0;
      }
      if (x == -kInfinity) at = -1;
    }
    return support;
  }

  // Whether a kernel whose masses err no more than that draws `id`, with one of the ends that the choice may have.
  bool draws(size_t id, const std::vector<int>& support) const {
    if (!binned_) return draws_of({0, kSelectBins - 1}, id, support);
    const SampleRule& rule = row_.rule;
    int counted = 0;  // the bin that has the last of top_k
    while (counted < kSelectBins - 1 && end_[counted + 1] < rule.top_k) ++counted;
    const bool of_the_k = rule.has_top_p && p_.joint == SampleJoint::kTopKFirst && rule.top_k != kAllTokens;
    const auto tried = [&](BinRange cut) {
      if (has_floor(rule)) cut = with_floor(cut, bins_of_floor(rule.floor, above_), of_the_k);
      return draws_of(cut, id, support);
    };
    if (!rule.has_top_p) return tried({counted, counted});
    const size_t of = of_the_k ? end_[counted] : all_;
    const double limit = row_.top_p * mass_[of], allowed = row_.top_p * error_[of] + mass_[of] * 0x1p-31 + 0x1p-30;
    for (int bin = 0; bin <= counted; ++bin) {
      const double unsure = allowed + error_[end_[bin + 1]];
      const bool may_begin = bin == 0 || mass_[end_[bin]] - unsure < limit;
      const bool may_end = bin == counted || mass_[end_[bin + 1]] + unsure >= limit;
      if (may_begin && may_end && tried({bin, of_the_k ? counted : bin})) return true;
    }
    return false;
  }

 private:
  // Whether something between `low` and `high`, but for `error`, is from `from` to `to`.
  static bool meets(double low, double high, double error, double from, double to) {
    return high + error >= from && low - error <= to;
  }
  static double number(unsigned long long of) { return static_cast<double>(of) * 0x1p-64; }

  bool draws_of(const BinRange& cut, size_t id, const std::vector<int>& support) const {
    const size_t first = end_[cut.first], last = end_[cut.last + 1], j = place_[id];
    if (j >= last) return false;
    const double before = mass_[first], error = 2 * error_[last] + 0x1p-30;
    // What is left at the cut, at least and at most.
    double least = 0, most = 0;
    for (size_t at = first; at < last; ++at) {
      const double its = mass_[at + 1] - mass_[at];
      most += support[order_[at]] >= 0 ? its : 0, least += support[order_[at]] > 0 ? its : 0;
    }
    const bool at_cut = j >= first;
    if (at_cut && support[id] < 0) return false;
    // Its bin's tokens stand by their ids, those at the cut by their logits.
    int bin = 0;
    while (end_[bin + 1] <= j) ++bin;
    double stands = mass_[j] - before, bin_error = 0x1p-30 + error_[last] - error_[first];
    if (!at_cut) {
      stands = 0, bin_error = 0x1p-40 + 2 * (error_[end_[bin + 1]] - error_[end_[bin]]);
      for (size_t at = end_[bin]; at < end_[bin + 1]; ++at) {
        stands += order_[at] < id ? mass_[at + 1] - mass_[at] : 0;
      }
    }
    const double its = mass_[j + 1] - mass_[j];
    // Whether the numbers of a try name the token, of a mass at the cut between these.
    const auto names = [&](const DrawNumbers& numbers, double low, double high, bool always_at_cut) {
      const double u = number(numbers.bin), v = number(numbers.token);
      const double from = u * (before + low), to = u * (before + high);
      if (at_cut) {
        return (always_at_cut || meets(from, to, error, before, before + most)) &&
               meets(v * least, v * most, bin_error, stands, stands + its);
      }
      const double of_bin = mass_[end_[bin + 1]] - mass_[end_[bin]];
      return meets(from, to, error, mass_[end_[bin]], mass_[end_[bin + 1]]) &&
             meets(v * of_bin, v * of_bin, bin_error, stands, stands + its);
    };
    const double whole = mass_[last] - before;
    const DrawNumbers numbers = draw_numbers(row_.rule, 0);
    if (names(numbers, whole, whole, first == 0)) return true;
    const bool again = first > 0 && number(numbers.bin) * (before + whole) + error >= before + least;
    return again && names(draw_numbers(row_.rule, 1), least, most, false);
  }

  const SampleProblem& p_;
  const SampleReferenceRow& row_;
  const size_t all_;
  const double most_;
  std::vector<size_t> order_, place_;
  std::vector<double> mass_, error_;
  std::array<size_t, kSelectBins + 1> end_{};  // of bins, in the order
  bool binned_ = false;
  float above_ = 0;
};

}  // namespace

std::string check_sample(const SampleProblem& p, const SampleReferenceRow& row, int64_t id) {
  const auto all = static_cast<int64_t>(row.logits.size());
  if (largest_logit(row) == -kInfinity) {
    return id == -1 ? "" : fmt::format("token {} of a row without any, expected -1", id);
  }
  if (id < 0 || id >= all) return fmt::format("token {} of {}", id, all);
  if (row.rule.greedy) {
    const auto first = std::ranges::max_element(row.logits) - row.logits.begin();
    return id == first ? "" : fmt::format("token {}, expected {}, the first of the largest logits", id, first);
  }
  const SampleYardstick yardstick(p, row);
  const std::vector<int> support = yardstick.support();
  if (support[static_cast<size_t>(id)] < 0) return fmt::format("token {} is cut", id);
  if (yardstick.draws(static_cast<size_t>(id), support)) return {};
  return fmt::format("token {} is not the one that the row's numbers name", id);
}

ReferenceElement sample_log_probability(const SampleReferenceRow& row, int64_t id) {
  if (id < 0) return {std::numeric_limits<double>::quiet_NaN(), 0};
  const double most = largest_logit(row);
  double sum = 0, squares = 0, error = 0;
  for (const double x : row.logits) {
    const double d = difference(row, most, x), e = std::exp(d);
    if (e == 0) continue;
    sum += e, squares += e * e, error += e * exponential_bound(d);
  }
  const auto all = static_cast<int64_t>(row.logits.size());
  error = (error + accumulation_bound(DType::kF32, all, std::sqrt(squares), sum)) / sum;
  const double d = difference(row, most, row.logits[static_cast<size_t>(id)]), logarithm = std::log(sum);
  return {d - logarithm, error + epilogue_bound(std::fabs(d) + logarithm)};
}

}  // namespace tilewright
