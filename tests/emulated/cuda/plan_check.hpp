// SPDX-License-Identifier: MIT
// Runs a family's plan of a problem on an emulated device and compares D with the reference.
#pragma once

#include <gmock/gmock.h>

#include "dispatch/problem_instance.hpp"
#include "emulated/cuda/emulated_device.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"

namespace tilewright::emulated {

inline GemmProblem problem_of(const std::string& text) {
  Result<GemmProblem> parsed = parse_gemm_problem(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return *parsed;
}

inline void check_plan(EmulatedCudaDevice& device, const GemmProblem& problem, const KernelFamily& family,
                       const RecipeStep& step, std::shared_ptr<const LoadedKernel> kernel) {
  const std::string what = print_gemm_problem(problem) + "  " + step.key.text;
  SCOPED_TRACE(what);
  Result<std::vector<Stage>> stages = family.stages(erase(problem), device.spec(), step, std::move(kernel));
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  Plan plan;
  plan.stages = std::move(*stages);
  plan.workspace_bytes = family.workspace_bytes(erase(problem), device.spec(), step);
  Result<std::unique_ptr<ProblemInstance>> instance = make_gemm_instance(problem, device, {});
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  (*instance)->fill(1, InputData::kNormal);
  (*instance)->poison();
  const Status status = run_plan(device, plan, (*instance)->bindings(), {});
  ASSERT_TRUE(status.ok()) << status.message();
  const VerifyReport report = (*instance)->verify();
  EXPECT_TRUE(report.passed) << report.failure;
}

}  // namespace tilewright::emulated
