// SPDX-License-Identifier: MIT
// Angles of a position, in double: plain, and as models stretch them. Sources: Su et al. (arXiv:2104.09864); Chen et al., position
// interpolation (arXiv:2306.15595) for linear; Peng et al., YaRN (arXiv:2309.00071); Ding et al., LongRoPE (arXiv:2402.13753);
// Llama 3.1's model card for llama3.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tilewright/rope.hpp"

namespace tilewright {
namespace {

Status refuse_angles(const char* name, double value, const char* allowed) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("rope_angles: argument '{}' is {}, allowed: {}", name, value, allowed));
}

// The pair that turns `times` times over the original length.
double pair_of_turns(const RopeFrequencies& f, double times) {
  return f.dims * std::log(f.original_length / (times * 2 * std::numbers::pi)) / (2 * std::log(f.theta));
}

double llama3_angle(const RopeFrequencies& f, double angle) {
  const double turns = f.original_length * angle / (2 * std::numbers::pi);
  if (turns < f.low_frequency) return angle / f.factor;
  if (turns > f.high_frequency) return angle;
  const double smooth = (turns - f.low_frequency) / (f.high_frequency - f.low_frequency);
  return (1 - smooth) * angle / f.factor + smooth * angle;
}

double yarn_angle(const RopeFrequencies& f, double angle, int pair) {
  const double low = std::max(std::floor(pair_of_turns(f, f.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_of_turns(f, f.beta_slow)), f.dims - 1.0);
  const double ramp = std::clamp((pair - low) / std::max(high - low, 0.001), 0.0, 1.0);
  return angle / f.factor * ramp + angle * (1 - ramp);
}

double usual_attention(const RopeFrequencies& f) {
  if (f.factor <= 1) return 1;
  if (f.scaling == RopeScaling::kYarn) return 0.1 * std::log(f.factor) + 1;
  if (f.scaling == RopeScaling::kLongRope) return std::sqrt(1 + std::log(f.factor) / std::log(f.original_length));
  return 1;
}

// Each as if it were alone.
Result<RopeAngles> angles_of_sections(const RopeFrequencies& f) {
  const int pairs = std::accumulate(f.sections.begin(), f.sections.end(), 0);
  if (2 * pairs != f.dims) return refuse_angles("sections' sum", pairs, "dims / 2");
  if (f.scaling == RopeScaling::kLongRope)
    return refuse_angles("sections' number", 1.0 * f.sections.size(), "0 of longrope");
  RopeAngles all;
  for (const int section : f.sections) {
    RopeFrequencies of_section = f;
    of_section.sections.clear(), of_section.dims = 2 * section;
    const Result<RopeAngles> angles = rope_angles(of_section);
    if (!angles) return angles.status();
    all.attention = angles->attention;
    all.per_position.insert(all.per_position.end(), angles->per_position.begin(), angles->per_position.end());
  }
  return all;
}

}  // namespace

Result<RopeAngles> rope_angles(const RopeFrequencies& f) {
  if (!f.sections.empty()) return angles_of_sections(f);
  if (f.dims < 0 || f.dims % 2 != 0) return refuse_angles("dims", f.dims, "even numbers");
  if (!(f.theta > 1)) return refuse_angles("theta", f.theta, "above 1");
  if (!(f.factor > 0)) return refuse_angles("factor", f.factor, "above 0");
  const bool wants_length = f.scaling != RopeScaling::kNone && f.scaling != RopeScaling::kLinear;
  if (wants_length && !(f.original_length > 1)) return refuse_angles("original_length", f.original_length, "above 1");
  if (f.scaling == RopeScaling::kLlama3 && !(f.high_frequency > f.low_frequency)) {
    return refuse_angles("high_frequency", f.high_frequency, "above low_frequency");
  }
  const auto pairs = static_cast<size_t>(f.dims / 2);
  if (f.scaling == RopeScaling::kLongRope && f.factors.size() != pairs) {
    return refuse_angles("factors' length", static_cast<double>(f.factors.size()), "dims / 2");
  }
  RopeAngles angles;
  angles.attention = f.attention != 0 ? f.attention : usual_attention(f);
  for (size_t i = 0; i < pairs; ++i) {
    const double plain = std::pow(f.theta, -2.0 * static_cast<double>(i) / f.dims);
    switch (f.scaling) {
      case RopeScaling::kNone: angles.per_position.push_back(plain); break;
      case RopeScaling::kLinear: angles.per_position.push_back(plain / f.factor); break;
      case RopeScaling::kLlama3: angles.per_position.push_back(llama3_angle(f, plain)); break;
      case RopeScaling::kYarn: angles.per_position.push_back(yarn_angle(f, plain, static_cast<int>(i))); break;
      case RopeScaling::kLongRope: angles.per_position.push_back(plain / f.factors[i]); break;
    }
  }
  return angles;
}

namespace {

template <class PositionOf>
Status fill_tables(const RopeAngles& angles, int64_t rows, const PositionOf& position_of, std::span<float> cos,
                   std::span<float> sin) {
  const size_t pairs = angles.per_position.size(), wanted = static_cast<size_t>(std::max<int64_t>(rows, 0)) * pairs;
  if (rows < 0 || cos.size() != wanted || sin.size() != wanted) {
    return Status(StatusCode::kInvalidArgument, fmt::format("rope_tables: {} and {} entries, expected {} rows of {}",
                                                            cos.size(), sin.size(), rows, pairs));
  }
  for (size_t i = 0; i < wanted; ++i) {
    const double angle =
        static_cast<double>(position_of(static_cast<int64_t>(i / pairs))) * angles.per_position[i % pairs];
    cos[i] = static_cast<float>(std::cos(angle) * angles.attention);
    sin[i] = static_cast<float>(std::sin(angle) * angles.attention);
  }
  return {};
}

}  // namespace

Status rope_tables(const RopeAngles& angles, int64_t first, int64_t rows, std::span<float> cos, std::span<float> sin) {
  return fill_tables(angles, rows, [first](int64_t row) { return first + row; }, cos, sin);
}

Status rope_tables(const RopeAngles& angles, std::span<const int64_t> positions, std::span<float> cos,
                   std::span<float> sin) {
  const auto at = [positions](int64_t row) { return positions[static_cast<size_t>(row)]; };
  return fill_tables(angles, static_cast<int64_t>(positions.size()), at, cos, sin);
}

}  // namespace tilewright
