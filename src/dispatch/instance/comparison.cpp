// SPDX-License-Identifier: MIT
#include "dispatch/instance/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/tolerance.hpp"

namespace tilewright {

void Comparison::add(double got, const ReferenceElement& want, std::initializer_list<int64_t> index) {
  ++report_.compared;
  if (std::isfinite(want.value)) reference_squares_ += want.value * want.value;
  const double error = std::fabs(got - want.value);
  const double ratio = error_ratio(got, want.value, want.allowed, largest_finite(dtype_));
  if (std::isfinite(error)) error_squares_ += error * error;
  report_.worst_ratio = std::max(report_.worst_ratio, ratio);
  if (ratio > 1 && report_.failure.empty()) {
    report_.failure = fmt::format("element [{}]: got {}, expected {:.8g}, allowed error {:.3g}", fmt::join(index, ", "),
                                  got, want.value, want.allowed);
  }
}

void Comparison::finish() {
  report_.rel_error =
      reference_squares_ > 0 ? std::sqrt(error_squares_ / reference_squares_) : std::sqrt(error_squares_);
  report_.passed = report_.failure.empty();
}

}  // namespace tilewright
