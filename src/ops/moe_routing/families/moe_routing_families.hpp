// SPDX-License-Identifier: MIT
// The kernel families behind moe_routing, and the stage that all of them make.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/moe_routing/problem/moe_routing_problem.hpp"

namespace tilewright {

const KernelFamily& moe_routing_cpu_family();          // an instance for each type
const KernelFamily& moe_routing_generic_family();      // typed at run time, always built
const KernelFamily& moe_routing_gpu_family();          // an instance for each type and way to share tokens among lanes
const KernelFamily& moe_routing_generic_gpu_family();  // typed at run time

// Argument bytes without addresses, and where these go.
Stage moe_routing_stage(const MoeRoutingProblem& problem, long long grid, std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
