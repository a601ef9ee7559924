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

// The stages with their tensor maps made.
inline void make_plan(EmulatedCudaDevice& device, Result<std::vector<Stage>> stages, int64_t workspace_bytes,
                      Plan& plan) {
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  plan.stages = std::move(*stages);
  plan.workspace_bytes = workspace_bytes;
  for (Stage& stage : plan.stages) {
    for (const TensorMapSpec& map : stage.tensor_maps) {
      const Status status = device.encode_tensor_map(map, stage.args.data() + map.arg_offset);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
}

// Runs the stages on an instance's data, of each seed, and compares.
inline void check_stages(EmulatedCudaDevice& device, Result<std::vector<Stage>> stages, int64_t workspace_bytes,
                         Result<std::unique_ptr<ProblemInstance>> instance, std::initializer_list<uint64_t> seeds) {
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  Plan plan;
  ASSERT_NO_FATAL_FAILURE(make_plan(device, std::move(stages), workspace_bytes, plan));
  for (const uint64_t seed : seeds) {
    SCOPED_TRACE(seed);
    (*instance)->fill(seed, InputData::kNormal);
    (*instance)->poison();
    const Status status = run_plan(device, plan, (*instance)->bindings(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << report.failure;
  }
}

inline void check_plan(EmulatedCudaDevice& device, const GemmProblem& problem, const KernelFamily& family,
                       const RecipeStep& step, std::shared_ptr<const LoadedKernel> kernel) {
  SCOPED_TRACE(print_gemm_problem(problem) + "  " + step.key.text);
  check_stages(device, family.stages(erase(problem), device.spec(), step, std::move(kernel)),
               family.workspace_bytes(erase(problem), device.spec(), step), make_gemm_instance(problem, device, {}),
               {1});
}

}  // namespace tilewright::emulated
