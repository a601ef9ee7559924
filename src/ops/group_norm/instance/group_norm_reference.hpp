// SPDX-License-Identifier: MIT
// What outputs of group_norm and of its gradient must be, in f64, and how far they may be from that.
#pragma once

#include <vector>

#include "dispatch/instance/comparison.hpp"
#include "ops/group_norm/problem/group_norm_problem.hpp"

namespace tilewright {

// A group of an image: its elements, a channel's positions one behind another, and what its channels are scaled with.
struct GroupNormGroup {
  std::vector<double> x, dy;  // dy: of the gradient
  std::vector<double> weight, bias;
};
std::vector<ReferenceElement> group_norm_reference(const GroupNormProblem& problem, const GroupNormGroup& group,
                                                   double eps);

// A sum over positions and images, of products that are rounded before they are added.
struct ReferenceSum {
  double value = 0, magnitude = 0, squares = 0, error = 0;
  int64_t count = 0;
  void add(double x, double off);
  ReferenceElement in_f32() const;
};
// dx; what the group adds to its channels' dweight and dbias.
std::vector<ReferenceElement> group_norm_gradient_reference(const GroupNormProblem& problem,
                                                            const GroupNormGroup& group, double eps,
                                                            std::vector<ReferenceSum>& dweight,
                                                            std::vector<ReferenceSum>& dbias);

}  // namespace tilewright
