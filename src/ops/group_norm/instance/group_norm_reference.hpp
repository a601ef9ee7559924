// SPDX-License-Identifier: MIT
// What group_norm's output must be, in f64, and how far it may be from that.
#pragma once

#include <vector>

#include "dispatch/instance/comparison.hpp"
#include "ops/group_norm/problem/group_norm_problem.hpp"

namespace tilewright {

// Mean of a group and the inverse of its deviation, with their errors: of the inverse relative.
struct GroupMoments {
  double mean, mean_error, inverse, relative;
};
// `x`: the group's channels, one behind another.
GroupMoments reference_group_moments(const GroupNormProblem& problem, const std::vector<double>& x, double eps);

// (x - mean) * inverse
ReferenceElement normalised_reference(const GroupMoments& of, double x);
// And times weight, plus bias.
ReferenceElement scaled_reference(const ReferenceElement& normalised, double weight, double bias);

}  // namespace tilewright
