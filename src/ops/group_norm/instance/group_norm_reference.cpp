// SPDX-License-Identifier: MIT
#include "ops/group_norm/instance/group_norm_reference.hpp"

#include <algorithm>
#include <cmath>

#include "core/tensor/tolerance.hpp"

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
      const double error = (accumulation_bound(DType::kF32, count, std::sqrt(squares), sum) + kUlpF32 * magnitudes) / n +
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

}  // namespace

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

ReferenceElement normalised_reference(const GroupMoments& of, double x) {
  const double value = (x - of.mean) * of.inverse;
  return {value, std::fabs(value) * (of.relative + 2 * kUlpF32) + of.mean_error * of.inverse * (1 + of.relative)};
}
ReferenceElement scaled_reference(const ReferenceElement& normalised, double weight, double bias) {
  const double scaled = normalised.value * weight, value = scaled + bias;
  return {value, normalised.allowed * std::fabs(weight) + 2 * kUlpF32 * (std::fabs(scaled) + std::fabs(value))};
}

}  // namespace tilewright
