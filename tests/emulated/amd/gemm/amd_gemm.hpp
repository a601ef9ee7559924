// SPDX-License-Identifier: MIT
// Runs gemm's families on every emulated AMD GPU as dispatch would call them, and checks D.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/emu/emu_device.hpp"
#include "dispatch/problem_instance.hpp"
#include "jit/amdgcn/emulated_compiler.hpp"
#include "jit/system/files.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"
#include "ops/op_list.hpp"
#include "support/sanitizer.hpp"

namespace tilewright::test {

class AmdGemm : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow fibers";
    Result<std::unique_ptr<emu::EmuDevice>> made = emu::EmuDevice::make(GetParam());
    ASSERT_TRUE(made.ok()) << made.status().message();
    device = std::move(*made);
    target = device->spec().arch->target;
  }

  GemmProblem parse(const std::string& text) const {
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    EXPECT_TRUE(problem.ok()) << text << ": " << problem.status().message();
    return problem ? *problem : GemmProblem{};
  }
  // The family's best candidate that `wanted` takes.
  template <class Wanted>
  void check_best(const KernelFamily& family, const std::string& text, const Wanted& wanted) {
    const GemmProblem problem = parse(text);
    if (const Status s = family.supports(erase(problem), device->spec()); !s) FAIL() << text << ": " << s.message();
    for (const Candidate& candidate : family.candidates(erase(problem), device->spec())) {
      if (!wanted(candidate.step)) continue;
      return run(family, problem, text, candidate.step);
    }
    FAIL() << text << ": no candidate is wanted";
  }
  void check_best(const KernelFamily& family, const std::string& text) {
    check_best(family, text, [](const RecipeStep&) { return true; });
  }

  void run(const KernelFamily& family, const GemmProblem& problem, const std::string& text, const RecipeStep& step) {
    SCOPED_TRACE(text + "  " + step.key.text + "@" + print_knobs(family, step.knobs));
    const Status status = run_and_verify(family, problem, step);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // What is wrong with it: the emulation's words, or the comparison's.
  Status run_and_verify(const KernelFamily& family, const GemmProblem& problem, const RecipeStep& step) {
    const auto kernel = kernel_of(family, step.key);
    if (kernel == nullptr) return Status(StatusCode::kCompileFailed, "there is no kernel");
    Result<std::vector<Stage>> stages = family.stages(erase(problem), device->spec(), step, kernel);
    if (!stages) return stages.status();
    Plan plan;
    plan.stages = std::move(*stages);
    plan.workspace_bytes = family.workspace_bytes(erase(problem), device->spec(), step);
    Result<std::unique_ptr<ProblemInstance>> instance = make_gemm_instance(problem, *device, {});
    if (!instance) return instance.status();
    (*instance)->fill(1, InputData::kNormal);
    (*instance)->poison();
    device->reset_counters();
    const auto start = std::chrono::steady_clock::now();
    const Status status = run_plan(*device, plan, (*instance)->bindings(), {});
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!status) return status;
    const VerifyReport report = (*instance)->verify();
    return report.passed ? Status() : Status(StatusCode::kVerifyFailed, report.failure);
  }

  std::shared_ptr<const LoadedKernel> kernel_of(const KernelFamily& family, const KernelKey& key) {
    auto& kernel = kernels_[key.text];
    if (kernel != nullptr) return kernel;
    const Result<CompileRequest> request = family.source(key);
    EXPECT_TRUE(request.ok()) << request.status().message();
    Result<std::string> made = make_unique_folder(testing::TempDir(), "tilewright-gemm-");
    EXPECT_TRUE(made.ok());
    if (!request || !made) return nullptr;
    const ScopedFolder folder(std::move(*made));
    const Result<std::string> file = emulated_compiler().compile(*request, folder.path(), nullptr);
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file) return nullptr;
    Artifact artifact;
    artifact.kind = ArtifactKind::kEmulated;
    artifact.target = request->target;
    artifact.entry = request->entry;
    artifact.key = key.text;
    artifact.path = folder.path() + "/" + *file;
    auto loaded = device->load(artifact);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (loaded) kernel = *loaded;
    return kernel;
  }

  std::vector<const char*> dtypes() const {
    std::vector<const char*> types = {"bf16", "f16", "i8"};
    if (target.starts_with("gfx9")) types.push_back("f32");
    if (target == "gfx942") types.insert(types.end(), {"e4m3fnuz", "e5m2fnuz"});
    if (target == "gfx950" || target == "gfx1201") types.insert(types.end(), {"e4m3", "e5m2"});
    return types;
  }

  std::unique_ptr<emu::EmuDevice> device;
  std::string target;
  double seconds = 0;  // of the last launches

 private:
  std::map<std::string, std::shared_ptr<const LoadedKernel>> kernels_;
};

// By architecture, so that two processes share the work.
inline const auto kCdna = testing::Range(0, 3), kRdna = testing::Range(3, 5);
static_assert(std::size(kEmulatedTargets) == 5);
inline std::string target_of(const testing::TestParamInfo<int>& suite) { return kEmulatedTargets[suite.param]; }

}  // namespace tilewright::test
