// SPDX-License-Identifier: MIT
// A sample problem made real: guarded buffers with data, and the float64 reference.
#pragma once

#include <string>
#include <vector>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/sample/problem/sample_problem.hpp"
#include "sample/sample_draw.hpp"

namespace tilewright {

// One row: its logits as a kernel takes them, NaN as minus infinity, and its options.
struct SampleReferenceRow {
  std::vector<double> logits;
  SampleRule rule;
  double inverse = 1, top_p = 1, min_p = 0;  // as the tensors have them, not as the rule rounds them
};

// "" where `id` is a token that the row allows: of the choice, and named by its random numbers but for what f32 may err.
std::string check_sample(const SampleProblem& problem, const SampleReferenceRow& row, int64_t id);
// The logarithm of a token's probability.
ReferenceElement sample_log_probability(const SampleReferenceRow& row, int64_t id);

Result<std::unique_ptr<ProblemInstance>> make_sample_instance(const SampleProblem& problem, Device& device,
                                                              const InstanceOptions& options);

}  // namespace tilewright
