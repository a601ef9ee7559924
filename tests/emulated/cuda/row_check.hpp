// SPDX-License-Identifier: MIT
// Problems of an operator that moves bytes through its family's own stages, with a kernel on the host.
#pragma once

#include "emulated/cuda/plan_check.hpp"

#include <fmt/format.h>

#include "core/fields.hpp"
#include "ops/op_list.hpp"
#include "ops/row/problem/row_problem.hpp"

namespace tilewright::emulated {

// Through a family's stages, for so many multiprocessors: of one a few blocks are more than run at a time, and go on to other rows.
inline void check_family(const Operator& op, const KernelFamily& family, const RecipeStep& step,
                         const std::shared_ptr<HostKernel>& kernel, std::initializer_list<const char*> problems,
                         InputData data = InputData::kNormal, int units = 1) {
  EmulatedCudaDevice device("sm_90a");
  DeviceSpec spec = device.spec();
  spec.units = units;
  for (const char* text : problems) {
    SCOPED_TRACE(text);
    const Result<std::vector<std::byte>> problem = op.parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    Result<std::vector<Stage>> stages = family.stages(*problem, spec, step, kernel);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    Plan plan;
    plan.stages = std::move(*stages);
    plan.workspace_bytes = family.workspace_bytes(*problem, spec, step);
    auto instance = op.instantiate(*problem, device, {});
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    (*instance)->fill(1, data);
    (*instance)->poison();
    const Status status = run_plan(device, plan, (*instance)->bindings(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << report.failure;
  }
}

// Through `op`'s family for `config`.
template <class Config>
void check_rows(const Operator& op, const Config& config, const std::shared_ptr<HostKernel>& kernel,
                std::initializer_list<const char*> problems, int units = 1) {
  const bool generic = config.x == DType::kNone;
  const KernelFamily& family =
      *find_family(op.families(), fmt::format("{}{}", op.name(), generic ? "_generic_gpu" : "_gpu"));
  RecipeStep step;
  step.key = generic ? family.builtin_keys("sm_90a").front()
                     : make_key(op.name(), family.name(), "sm_90a", fmt::format("x={}", dtype_name(config.x)),
                                print_fields(config));
  check_family(op, family, step, kernel, problems, InputData::kNormal, units);
}

// The same of a kernel for `kConfig`.
template <RowGpuConfig kConfig, void (*kKernel)(const RowArgs&)>
void check_row_kernel(const Operator& op, std::initializer_list<const char*> problems) {
  check_rows(op, kConfig,
             std::make_shared<HostKernel>([](const void* args) { kKernel(*static_cast<const RowArgs*>(args)); }),
             problems);
}

}  // namespace tilewright::emulated
