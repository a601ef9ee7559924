// SPDX-License-Identifier: MIT
// The float64 yardstick of moe_routing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor/tolerance.hpp"
#include "ops/moe_routing/instance/moe_routing_instance.hpp"

namespace tilewright {
namespace {

constexpr double kWorst = -std::numeric_limits<double>::infinity();

// An exponential that a kernel may lose, and what it is lost from.
ReferenceElement bounded(double value, double relative) {
  return {value, std::fabs(value) * (relative + epilogue_bound(1)) + kLostExponential};
}

// The scores of experts, given what a softmax has in common.
class RouterScores {
 public:
  RouterScores(RouterScore score, std::span<const double> shared) : score_(score) {
    if (score_ != RouterScore::kSoftmax) return;
    for (const double x : shared) most_ = std::max(most_, std::isnan(x) ? kWorst : x);
    double squares = 0;
    for (const double x : shared) {
      const double d = x - most_, e = std::exp(d);
      sum_ += e, squares += e * e;
      if (e > 0) error_ += e * exponential_bound(d);
    }
    const auto count = static_cast<int64_t>(shared.size());
    error_ = (error_ + accumulation_bound(DType::kF32, count, std::sqrt(squares), sum_)) / sum_;
  }
  ReferenceElement of(double x) const {
    switch (score_) {
      case RouterScore::kSigmoid: {
        const double e = std::exp(-std::fabs(x));
        return bounded(x > 0 ? 1 / (1 + e) : e / (1 + e), std::isinf(x) ? 0 : exponential_bound(x));
      }
      case RouterScore::kSqrtSoftplus: {
        if (std::isinf(x)) return {x > 0 ? x : 0, 0};
        const double value = std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
        // The root of an exponential that is lost.
        return {value, value * (exponential_bound(x) + epilogue_bound(1)) + std::sqrt(kLostExponential)};
      }
      default: return bounded(std::exp(x - most_) / sum_, std::isinf(x) ? 0 : exponential_bound(x - most_) + error_);
    }
  }

 private:
  RouterScore score_;
  double most_ = kWorst, sum_ = 0, error_ = 0;
};

// What the choice is among.
std::vector<ReferenceElement> choice_values(const MoeRoutingProblem& p, const RouterReferenceToken& token) {
  std::vector<ReferenceElement> values(token.logits.size());
  const RouterScores scores(p.score, p.scored() ? token.logits : std::span<const double>());
  for (size_t e = 0; e < values.size(); ++e) {
    values[e] = {token.logits[e], 0};
    if (p.scored()) values[e] = scores.of(token.logits[e]);
    if (!token.bias.empty()) {
      values[e].value += token.bias[e];
      values[e].allowed += epilogue_bound(std::fabs(values[e].value) + std::fabs(token.bias[e]));
    }
    if (std::isnan(values[e].value)) values[e] = {kWorst, 0};
  }
  return values;
}

// 1: surely above, -1: surely not, 0: too near to tell. Of exactly equal ones, the one that comes first.
int compare(const ReferenceElement& a, const ReferenceElement& b) {
  if (a.value == b.value && a.allowed == 0 && b.allowed == 0) return 0;
  const double allowed = a.allowed + b.allowed;
  return a.value > b.value + allowed ? 1 : a.value + allowed < b.value ? -1 : 0;
}

std::vector<ReferenceElement> group_scores(const MoeRoutingProblem& p, std::span<const ReferenceElement> values) {
  const auto size = static_cast<size_t>(p.experts / p.groups);
  std::vector<ReferenceElement> scores(static_cast<size_t>(p.groups));
  for (size_t g = 0; g < scores.size(); ++g) {
    const auto of_group = values.subspan(g * size, size);
    std::vector<ReferenceElement> group(of_group.begin(), of_group.end());
    std::ranges::sort(group, [](const auto& a, const auto& b) { return a.value > b.value; });
    double allowed = 0;
    for (const ReferenceElement& e : group) allowed = std::max(allowed, e.allowed);
    scores[g] = {group[0].value, allowed};
    if (p.group_score == GroupScore::kTwoLargest && size > 1) {
      scores[g] = {group[0].value + group[1].value,
                   2 * allowed + epilogue_bound(std::fabs(group[0].value) + std::fabs(group[1].value))};
    }
    if (std::isnan(scores[g].value)) scores[g] = {kWorst, 0};
  }
  return scores;
}

// Whether a group is surely open (1), surely not (-1), or one of some that are too near to tell.
std::vector<int> open_groups(const MoeRoutingProblem& p, std::span<const ReferenceElement> values) {
  std::vector<int> open(static_cast<size_t>(p.groups), 1);
  if (!p.grouped()) return open;
  const std::vector<ReferenceElement> scores = group_scores(p, values);
  for (size_t g = 0; g < open.size(); ++g) {
    int64_t above = 0, near = 0;
    for (size_t other = 0; other < open.size(); ++other) {
      if (other == g) continue;
      const int order = compare(scores[other], scores[g]);
      const bool exact = scores[other].allowed == 0 && scores[g].allowed == 0;
      above += order > 0 || (order == 0 && exact && other < g) ? 1 : 0;
      near += order == 0 && !exact ? 1 : 0;
    }
    open[g] = above >= p.topk_groups ? -1 : above + near < p.topk_groups ? 1 : 0;
  }
  return open;
}

// The best `count` of `values`, of equal ones the first.
std::vector<int64_t> best_of(std::span<const ReferenceElement> values, std::vector<int64_t> among, int64_t count) {
  std::ranges::stable_sort(among, [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)].value > values[static_cast<size_t>(b)].value;
  });
  among.resize(static_cast<size_t>(count));
  return among;
}

}  // namespace

std::vector<int64_t> reference_router_choice(const MoeRoutingProblem& p, const RouterReferenceToken& token) {
  const std::vector<ReferenceElement> values = choice_values(p, token);
  std::vector<int64_t> groups(static_cast<size_t>(p.groups)), among;
  std::iota(groups.begin(), groups.end(), 0);
  if (p.grouped()) groups = best_of(group_scores(p, values), groups, p.topk_groups);
  std::ranges::sort(groups);
  const int64_t size = p.experts / p.groups;
  for (const int64_t g : groups) {
    for (int64_t e = g * size; e < (g + 1) * size; ++e) among.push_back(e);
  }
  return best_of(values, among, p.k);
}

std::string check_router_choice(const MoeRoutingProblem& p, const RouterReferenceToken& token,
                                std::span<const int64_t> ids) {
  const std::vector<ReferenceElement> values = choice_values(p, token);
  const std::vector<int> open = open_groups(p, values);
  const int64_t size = p.experts / p.groups;
  std::vector<bool> chosen(values.size(), false);
  const auto equal = [&](size_t a, size_t b) {
    return token.logits[a] == token.logits[b] && (token.bias.empty() || token.bias[a] == token.bias[b]);
  };
  // Whether `a` may not stand behind `b`, or not be chosen where `b` is.
  const auto surely_before = [&](size_t a, size_t b) {
    const int order = compare(values[a], values[b]);
    if (order != 0) return order > 0;
    const bool exact = (values[a].allowed == 0 && values[b].allowed == 0) || equal(a, b);
    return exact && a < b;
  };
  for (size_t j = 0; j < ids.size(); ++j) {
    if (ids[j] < 0 || ids[j] >= p.experts) return fmt::format("id {} of {} experts", ids[j], p.experts);
    const auto e = static_cast<size_t>(ids[j]);
    if (chosen[e]) return fmt::format("expert {} is chosen twice", e);
    chosen[e] = true;
    if (open[e / static_cast<size_t>(size)] < 0) {
      return fmt::format("expert {} is of group {}, which is not among the best {}", e, ids[j] / size, p.topk_groups);
    }
    if (j > 0 && surely_before(e, static_cast<size_t>(ids[j - 1]))) {
      return fmt::format("expert {} stands behind {}, which is worse", e, ids[j - 1]);
    }
  }
  const auto last = static_cast<size_t>(ids.back());
  for (size_t e = 0; e < values.size(); ++e) {
    if (chosen[e] || open[e / static_cast<size_t>(size)] < 1) continue;
    if (surely_before(e, last)) return fmt::format("expert {} is not chosen, {} is, which is worse", e, last);
  }
  return {};
}

std::vector<ReferenceElement> router_weights(const MoeRoutingProblem& p, const RouterReferenceToken& token,
                                             std::span<const int64_t> ids, double scale) {
  std::vector<double> of_chosen;
  for (const int64_t id : ids) of_chosen.push_back(token.logits[static_cast<size_t>(id)]);
  const bool all = p.scored() || p.renormalise == 0;
  const RouterScores scores(p.score, all ? std::span<const double>(token.logits) : of_chosen);
  std::vector<ReferenceElement> weights;
  double sum = 1, error = 0;
  for (const double x : of_chosen) weights.push_back(scores.of(x));
  if (p.renormalise != 0) {
    sum = 1e-20;
    for (const ReferenceElement& w : weights) sum += w.value, error += w.allowed;
    error += epilogue_bound(sum);
  }
  for (ReferenceElement& w : weights) {
    const double value = w.value / sum * scale;
    w = {value, (w.allowed * std::fabs(scale) + std::fabs(value) * error) / std::max(sum - error, 1e-30) +
                    epilogue_bound(std::fabs(value)) + rounding_bound(DType::kF32, std::fabs(value))};
  }
  return weights;
}

}  // namespace tilewright
