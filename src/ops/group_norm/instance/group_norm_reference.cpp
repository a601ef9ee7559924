// SPDX-License-Identifier: MIT
#include "ops/group_norm/instance/group_norm_reference.hpp"

#include <algorithm>
#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/gemm/instance/activation_reference.hpp"

namespace tilewright {
namespace {

// What a kernel may lose whose parts have `span` positions: of the sum of x, and of the sum of squares about the mean. With u = 2^-24:
// differences from a part's first element are rounded once, their sums err as any sum; a part's mean is rounded twice. What is merged errs
// as any sum of so many parts, and by what their means do.
struct LostOfSums {
  double mean = 0, squares = 0;
};
LostOfSums lost_of_parts(const std::vector<double>& x, int64_t positions, int64_t span, double mean) {
  LostOfSums lost;
  double away = 0, between = 0, means = 0, mean_squares = 0, all = 0, all_squares = 0, means_error = 0;
  int64_t parts = 0;
  const auto channels = static_cast<int64_t>(x.size()) / positions;
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t begin = 0; begin < positions; begin += span, ++parts) {
      const int64_t end = std::min(begin + span, positions), count = end - begin;
      const double* const at = x.data() + channel * positions;
      double sum = 0, magnitudes = 0, squares = 0, fourths = 0;
      for (int64_t i = begin; i < end; ++i) {
        const double d = at[i] - at[begin];
        sum += d, magnitudes += std::fabs(d), squares += d * d, fourths += d * d * d * d;
      }
      const auto n = static_cast<double>(count);
      const double of_part = at[begin] + sum / n, d = of_part - mean;
      const double error =
          (accumulation_bound(DType::kF32, count, std::sqrt(squares), sum) + kUlpF32 * magnitudes) / n +
          2 * kUlpF32 * (std::fabs(of_part) + std::fabs(at[begin]));
      lost.squares += accumulation_bound(DType::kF32, count, std::sqrt(fourths), squares) + 8 * kUlpF32 * squares;
      lost.mean += n * error;
      means_error = std::max(means_error, error);
      if (parts == 0) away = of_part;
      const double from_first = n * (of_part - away), inner = squares - sum * sum / n + n * d * d;
      means += from_first, mean_squares += from_first * from_first;
      between += n * std::fabs(d), all += inner, all_squares += inner * inner;
    }
  }
  lost.mean += accumulation_bound(DType::kF32, parts, std::sqrt(mean_squares), means);
  lost.squares += accumulation_bound(DType::kF32, parts, std::sqrt(all_squares), all) + 4 * kUlpF32 * all +
                  2 * means_error * (between + static_cast<double>(x.size()) * means_error);
  return lost;
}

// Mean of a group and the inverse of its deviation, with their errors: of the inverse relative.
struct GroupMoments {
  double mean, mean_error, inverse, relative;
};
GroupMoments reference_group_moments(const GroupNormProblem& p, const std::vector<double>& x, double eps) {
  const auto n = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (const double one : x) sum += one;
  const double mean = sum / n;
  for (const double one : x) squares += (one - mean) * (one - mean);
  LostOfSums lost;
  const auto spans = p.channels_last != 0 ? std::pair{kGroupNormCpuSpanLast, kGroupNormGpuSpanLast}
                                          : std::pair{kGroupNormCpuSpan, kGroupNormGpuSpan};
  for (const int64_t span : {int64_t{spans.first}, int64_t{spans.second}}) {
    const LostOfSums of = lost_of_parts(x, p.positions, span, mean);
    lost = {std::max(lost.mean, of.mean), std::max(lost.squares, of.squares)};
  }
  const double total = squares + n * eps;
  const double relative = (total > 0 ? 0.5 * lost.squares / total : 0) + 4 * kUlpF32;
  return {mean, lost.mean / n + 2 * kUlpF32 * std::fabs(mean), 1 / std::sqrt(squares / n + eps), relative};
}

// (x - mean) * inverse
ReferenceElement normalised_reference(const GroupMoments& of, double x) {
  const double value = (x - of.mean) * of.inverse;
  return {value, std::fabs(value) * (of.relative + 2 * kUlpF32) + of.mean_error * of.inverse * (1 + of.relative)};
}
// And times weight, plus bias.
Bounded scaled_reference(const ReferenceElement& normalised, double weight, double bias) {
  const double scaled = normalised.value * weight, value = scaled + bias;
  return {value, normalised.allowed * std::fabs(weight) + 2 * kUlpF32 * (std::fabs(scaled) + std::fabs(value))};
}
// dy times the slope of silu, which bends by 0.5 at most and is made of factors that err by 32 u together.
Bounded inner_gradient(const GroupNormProblem& p, const Bounded& y, double dy) {
  if (p.activation == Activation::kNone) return {dy, 0};
  const double logistic = 1 / (1 + std::exp(-y.value)), slope = logistic * (1 + y.value * (1 - logistic));
  const double error = 0.5 * y.error + 32 * kUlpF32;
  return {dy * slope, std::fabs(dy) * (error + 2 * kUlpF32 * std::fabs(slope))};
}

}  // namespace

void ReferenceSum::add(double x, double off) {
  value += x, magnitude += std::fabs(x), squares += x * x, error += off, ++count;
}
ReferenceElement ReferenceSum::in_f32() const {
  return {value, error + 2 * kUlpF32 * magnitude + accumulation_bound(DType::kF32, count, std::sqrt(squares), value)};
}

std::vector<ReferenceElement> group_norm_reference(const GroupNormProblem& p, const GroupNormGroup& group, double eps) {
  const GroupMoments moments = reference_group_moments(p, group.x, eps);
  std::vector<ReferenceElement> out;
  out.reserve(group.x.size());
  for (size_t i = 0; i < group.x.size(); ++i) {
    const size_t channel = i / static_cast<size_t>(p.positions);
    const Bounded scaled =
        scaled_reference(normalised_reference(moments, group.x[i]), group.weight[channel], group.bias[channel]);
    const Bounded y = activate(p.activation, scaled, 0, 0);
    out.push_back({y.value, y.error});
  }
  return out;
}

std::vector<ReferenceElement> group_norm_gradient_reference(const GroupNormProblem& p, const GroupNormGroup& group,
                                                            double eps, std::vector<ReferenceSum>& dweight,
                                                            std::vector<ReferenceSum>& dbias) {
  const GroupMoments moments = reference_group_moments(p, group.x, eps);
  struct Terms {
    ReferenceElement normalised;
    Bounded g;  // of what is normalised
  };
  std::vector<Terms> all;
  all.reserve(group.x.size());
  ReferenceSum plain, products;
  for (size_t i = 0; i < group.x.size(); ++i) {
    const size_t channel = i / static_cast<size_t>(p.positions);
    const double weight = group.weight[channel];
    const ReferenceElement h = normalised_reference(moments, group.x[i]);
    const Bounded inner = inner_gradient(p, scaled_reference(h, weight, group.bias[channel]), group.dy[i]);
    const double product_error = inner.error * (std::fabs(h.value) + h.allowed) + std::fabs(inner.value) * h.allowed;
    dbias[channel].add(inner.value, inner.error);
    dweight[channel].add(inner.value * h.value, product_error);
    const Bounded g{inner.value * weight, inner.error * std::fabs(weight) + kUlpF32 * std::fabs(inner.value * weight)};
    plain.add(g.value, g.error);
    products.add(g.value * h.value, product_error * std::fabs(weight) + 2 * kUlpF32 * std::fabs(g.value * h.value));
    all.push_back({h, g});
  }
  const auto n = static_cast<double>(group.x.size());
  const auto mean_of = [n](const ReferenceSum& sum) {
    const ReferenceElement found = sum.in_f32();
    return Bounded{found.value / n, (found.allowed + 2 * kUlpF32 * std::fabs(found.value)) / n};
  };
  const Bounded mean = mean_of(plain), along = mean_of(products);
  std::vector<ReferenceElement> dx;
  dx.reserve(all.size());
  for (const auto& [h, g] : all) {
    const double inner = g.value - mean.value - h.value * along.value;
    const double terms = std::fabs(g.value) + std::fabs(mean.value) + std::fabs(h.value * along.value);
    const double error = g.error + mean.error + h.allowed * std::fabs(along.value) +
                         (std::fabs(h.value) + h.allowed) * along.error + 6 * kUlpF32 * terms;
    dx.push_back({moments.inverse * inner, moments.inverse * (error * (1 + moments.relative) +
                                                              std::fabs(inner) * (moments.relative + 2 * kUlpF32))});
  }
  return dx;
}

}  // namespace tilewright
