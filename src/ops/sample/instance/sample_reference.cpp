// SPDX-License-Identifier: MIT
// The float64 yardstick of sample.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor/tolerance.hpp"
#include "ops/sample/instance/sample_instance.hpp"

namespace tilewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A bin's tokens have masses in units of 2^-18 of the largest, and those at the cut in units of 2^-40.
constexpr double kMassError = 0x1p-17;

double largest_logit(const SampleReferenceRow& row) { return *std::ranges::max_element(row.logits); }
double difference(const SampleReferenceRow& row, double most, double x) { return (x - most) * row.inverse; }

// What a token races with, and what f32 errs in it: approximations of logarithms beside the roundings of sums.
ReferenceElement race_score(const SampleReferenceRow& row, double most, int64_t id) {
  const PhiloxWords words = philox(row.rule.seed, row.rule.offset, static_cast<unsigned>(id / 4));
  const double t = share_of_word(words.word[id % 4]);
  const double d = difference(row, most, row.logits[static_cast<size_t>(id)]);
  const double gumbel = -std::log(-std::log1p(-t));
  return {d + gumbel, 5e-5 + 8 * kUlpF32 * (std::fabs(d) + std::fabs(gumbel))};
}

}  // namespace

std::vector<int> sample_support(const SampleProblem& p, const SampleReferenceRow& row) {
  const size_t all = row.logits.size();
  const double most = largest_logit(row);
  std::vector<int> support(all, 1);
  std::vector<size_t> order(all);
  std::iota(order.begin(), order.end(), size_t{0});
  if (has_cut(row.rule)) {
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return row.logits[a] > row.logits[b]; });
  }

  // Masses up to each token, and what they err.
  std::vector<double> mass(all + 1, 0), error(all + 1, 0);
  for (size_t j = 0; j < all; ++j) {
    const double d = difference(row, most, row.logits[order[j]]), e = std::exp(d);
    mass[j + 1] = mass[j] + e;
    error[j + 1] = error[j] + (e > 0 ? e * (exponential_bound(d) + kMassError) : 0) + 0x1p-40;
  }
  const size_t count = std::min<size_t>(row.rule.top_k, all);
  const size_t of = p.joint == SampleJoint::kTopKFirst ? count : all;
  const double limit = row.top_p * mass[of], allowed = row.top_p * error[of] + mass[of] * 0x1p-31;

  const double floor = row.min_p > 0 ? std::log(std::min(row.min_p, 1.0)) : -kInfinity;
  for (size_t j = 0; j < all; ++j) {
    int& at = support[order[j]];
    const double x = row.logits[order[j]], d = difference(row, most, x);
    if (j >= count) at = -1;
    if (row.rule.has_top_p && j > 0 && at >= 0) {
      const double unsure = allowed + error[j];
      at = mass[j] >= limit + unsure ? -1 : mass[j] + unsure < limit ? at : 0;
    }
    if (row.min_p > 0 && at >= 0 && d < 0) {
      const double unsure = kUlpF32 * (8 * std::fabs(floor) + 8 * std::fabs(d) + 8);
      at = d < floor - unsure ? -1 : d >= floor + unsure ? at : 0;
    }
    if (x == -kInfinity) at = -1;
  }
  return support;
}

std::string check_sample(const SampleProblem& p, const SampleReferenceRow& row, int64_t id) {
  const auto all = static_cast<int64_t>(row.logits.size());
  const double most = largest_logit(row);
  if (most == -kInfinity) return id == -1 ? "" : fmt::format("token {} of a row without any, expected -1", id);
  if (id < 0 || id >= all) return fmt::format("token {} of {}", id, all);
  if (row.rule.greedy) {
    const auto first = std::ranges::max_element(row.logits) - row.logits.begin();
    return id == first ? "" : fmt::format("token {}, expected {}, the first of the largest logits", id, first);
  }
  const std::vector<int> support = sample_support(p, row);
  if (support[static_cast<size_t>(id)] < 0) return fmt::format("token {} is cut", id);
  const ReferenceElement got = race_score(row, most, id);
  for (int64_t i = 0; i < all; ++i) {
    if (support[static_cast<size_t>(i)] < 1) continue;
    const ReferenceElement other = race_score(row, most, i);
    if (other.value - other.allowed > got.value + got.allowed) {
      return fmt::format("token {} races with {}, {} with {}", id, got.value, i, other.value);
    }
  }
  return {};
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
