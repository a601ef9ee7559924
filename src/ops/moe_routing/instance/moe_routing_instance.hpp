// SPDX-License-Identifier: MIT
// A moe_routing problem made real: guarded buffers with data, and the float64 reference.
#pragma once

#include <span>
#include <vector>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/moe_routing/problem/moe_routing_problem.hpp"

namespace tilewright {

// One token: logits, and the biases where there are any.
struct RouterReferenceToken {
  std::vector<double> logits, bias;
};

// "" where `ids` is a choice that the token allows: exactly the reference's where the choice is among logits; else scores that lie
// within what f32 may err take either's place, but equal logits and biases the lower number's first.
std::string check_router_choice(const MoeRoutingProblem& problem, const RouterReferenceToken& token,
                                std::span<const int64_t> ids);
// The choice in float64.
std::vector<int64_t> reference_router_choice(const MoeRoutingProblem& problem, const RouterReferenceToken& token);
// The weights that these experts have.
std::vector<ReferenceElement> router_weights(const MoeRoutingProblem& problem, const RouterReferenceToken& token,
                                             std::span<const int64_t> ids, double scale);

Result<std::unique_ptr<ProblemInstance>> make_moe_routing_instance(const MoeRoutingProblem& problem, Device& device,
                                                                   const InstanceOptions& options);

}  // namespace tilewright
