// SPDX-License-Identifier: MIT
#include "ops/row/norm.hpp"

#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/gemm/instance/activation_reference.hpp"

namespace tilewright {

// Errors, with u = 2^-24: the sum of squares as any sum; its mean, eps, root and reciprocal 4 u; each factor of y one rounding.
NormalisedRow normalised_by_root(const RowProblem& p, const RowReference& row) {
  double squares = 0, fourths = 0;
  for (const double x : row.x) squares += x * x, fourths += x * x * x * x;
  const auto n = static_cast<double>(p.n);
  const double inverse = 1 / std::sqrt(squares / n + row.eps);
  const double lost = accumulation_bound(DType::kF32, p.n, std::sqrt(fourths), squares);
  const double relative = squares > 0 ? 0.5 * lost / (squares + n * row.eps) + 4 * kUlpF32 : 4 * kUlpF32;
  NormalisedRow normalised{{}, inverse, relative};
  for (const double x : row.x) {
    const double y = x * inverse;
    normalised.elements.push_back({y, std::fabs(y) * (relative + kUlpF32)});
  }
  return normalised;
}

// Errors, with u = 2^-24. The first mean m errs as any sum of N, and is rounded to 2 u of the magnitudes' sum over sqrt(N): by d.
// From there on differences are summed, each rounded once: their mean corrects m to the sum's error over N and two roundings. The sum of squares has N d^2 more, which is taken off again,
// and errs as any sum, each square by the two roundings of its factors; its mean, eps, root and reciprocal 4 u.
NormalisedRow normalised_by_deviation(const RowProblem& p, const RowReference& row) {
  const auto n = static_cast<double>(p.n);
  double sum = 0, given = 0, magnitudes = 0;
  for (const double x : row.x) sum += x, given += x * x, magnitudes += std::fabs(x);
  const double mean = sum / n;
  double squares = 0, fourths = 0, differences = 0;
  for (const double x : row.x) {
    const double d = x - mean;
    squares += d * d, fourths += d * d * d * d, differences += std::fabs(d);
  }
  const double first = accumulation_bound(DType::kF32, p.n, std::sqrt(given), sum) / n +
                       kUlpF32 * (std::fabs(mean) + 2 * magnitudes / std::sqrt(n));
  const double shifted = squares + n * first * first;
  const double mean_error =
      (accumulation_bound(DType::kF32, p.n, std::sqrt(shifted), n * first) + kUlpF32 * (differences + n * first)) / n +
      2 * kUlpF32 * std::fabs(mean);
  const double lost = accumulation_bound(DType::kF32, p.n, std::sqrt(8 * (fourths + n * std::pow(first, 4))), shifted) +
                      4 * kUlpF32 * shifted;
  const double inverse = 1 / std::sqrt(squares / n + row.eps);
  const double total = squares + n * row.eps;
  const double relative = (total > 0 ? 0.5 * lost / total : 0) + 4 * kUlpF32;
  NormalisedRow normalised{{}, inverse, relative};
  for (const double x : row.x) {
    const double y = (x - mean) * inverse;
    normalised.elements.push_back({y, std::fabs(y) * (relative + 2 * kUlpF32) + mean_error * inverse * (1 + relative)});
  }
  return normalised;
}

// Errors, with u = 2^-24: g = dy * weight has one rounding, two with an offset; sums err as any sum of N, and by what their terms do.
void norm_gradient_reference(const RowProblem& p, RowReference& row, NormalisedRow&& normalised, bool centred) {
  struct Sum {
    double value = 0, squares = 0, error = 0;
    void add(double x, double off) { value += x, squares += x * x, error += off; }
    Bounded mean(int64_t n) const {
      const double lost = accumulation_bound(DType::kF32, n, std::sqrt(squares), value) + error;
      const auto count = static_cast<double>(n);
      return {value / count, (lost + 2 * kUlpF32 * std::fabs(value)) / count};
    }
  };
  const auto gradient = [&row](size_t i) { return row.second[i] * (row.weight.empty() ? 1 : row.weight[i]); };
  Sum plain, products;
  for (size_t i = 0; i < row.x.size(); ++i) {
    const double g = gradient(i);
    const ReferenceElement& h = normalised.elements[i];
    if (centred) plain.add(g, 2 * kUlpF32 * std::fabs(g));
    products.add(g * h.value, std::fabs(g) * h.allowed + 3 * kUlpF32 * std::fabs(g * h.value));
  }
  const Bounded mean = plain.mean(p.n), along = products.mean(p.n);
  const double inverse = normalised.inverse, relative = normalised.relative;
  for (size_t i = 0; i < row.x.size(); ++i) {
    const double g = gradient(i);
    const ReferenceElement& h = normalised.elements[i];
    const double inner = g - mean.value - h.value * along.value;
    const double terms = std::fabs(g) + std::fabs(mean.value) + std::fabs(h.value * along.value);
    const double error = mean.error + h.allowed * std::fabs(along.value) +
                         (std::fabs(h.value) + h.allowed) * along.error + 6 * kUlpF32 * terms;
    double y = inverse * inner,
           allowed = inverse * (error * (1 + relative) + std::fabs(inner) * (relative + 2 * kUlpF32));
    if (!row.added.empty()) {
      y += row.added[i];
      allowed += 2 * kUlpF32 * (std::fabs(y) + std::fabs(row.added[i]));
    }
    row.y[i] = {y, allowed};
    row.normalised[i] = h;
  }
}

ReferenceElement norm_columns_reference(const RowProblem& p, const RowReference& row, size_t i,
                                        ReferenceElement normalised) {
  double y = normalised.value, error = normalised.allowed;
  if (p.round_before_weight) error += rounding_bound(p.x.dtype, std::fabs(y) + error);
  double terms = std::fabs(y);
  if (!row.weight.empty()) {
    y *= row.weight[i], error *= std::fabs(row.weight[i]);
    terms = std::fabs(y);
  }
  if (!row.bias.empty()) y += row.bias[i], terms += std::fabs(row.bias[i]);
  error += epilogue_bound(terms);
  if (!row.smooth.empty()) y *= row.smooth[i], error = error * std::fabs(row.smooth[i]) + epilogue_bound(std::fabs(y));
  return {y, error};
}

}  // namespace tilewright
