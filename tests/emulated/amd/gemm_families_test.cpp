// SPDX-License-Identifier: MIT
// gemm on every emulated AMD GPU, through its families as dispatch would call them: right results at ragged sizes for each
// type, layout and epilogue, without a race, an access out of bounds, a read of what nobody wrote or a bank conflict that a
// main loop would feel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "device/emu/emu_device.hpp"
#include "dispatch/problem_instance.hpp"
#include "jit/amdgcn/emulated_compiler.hpp"
#include "jit/system/files.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"
#include "ops/op_list.hpp"
#include "support/sanitizer.hpp"

namespace tilewright {
namespace {

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
    const auto kernel = kernel_of(family, step.key);
    ASSERT_NE(kernel, nullptr);
    Result<std::vector<Stage>> stages = family.stages(erase(problem), device->spec(), step, kernel);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    Plan plan;
    plan.stages = std::move(*stages);
    plan.workspace_bytes = family.workspace_bytes(erase(problem), device->spec(), step);
    Result<std::unique_ptr<ProblemInstance>> instance = make_gemm_instance(problem, *device, {});
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    (*instance)->fill(1, InputData::kNormal);
    (*instance)->poison();
    device->reset_counters();
    const auto start = std::chrono::steady_clock::now();
    const Status status = run_plan(*device, plan, (*instance)->bindings(), {});
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_TRUE(status.ok()) << status.message();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << report.failure;
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

// With more kernels to compile than a quick run has time for.
class SlowAmdGemm : public AmdGemm {};

// By architecture, so that two processes share the work.
const auto kCdna = testing::Range(0, 3), kRdna = testing::Range(3, 5);
static_assert(std::size(kEmulatedTargets) == 5);
std::string target_of(const testing::TestParamInfo<int>& suite) { return kEmulatedTargets[suite.param]; }
INSTANTIATE_TEST_SUITE_P(EmulatedCdna, AmdGemm, kCdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedRdna, AmdGemm, kRdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedCdna, SlowAmdGemm, kCdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedRdna, SlowAmdGemm, kRdna, target_of);

TEST_P(AmdGemm, EveryTypeIsMultipliedRight) {
  for (const char* dtype : dtypes()) check_best(gemm_amd_family(), fmt::format("m=84:n=100:k=144:a={}", dtype));
}

// Whole chunks along K or N, so that they are copied as such; the tails lie inside of tiles.
// Printed, never compared.
TEST_P(SlowAmdGemm, TheTimeOfALaunchIsTold) {
  check_best(gemm_amd_family(), "m=256:n=256:k=256:a=bf16", [](const RecipeStep& step) {
    return step.key.text.find("tile_m=128:tile_n=128") != std::string::npos && step.knobs == Knobs{};
  });
  fmt::print("{}: 256 x 256 x 256 of bf16 in {:.3f} s\n", target, seconds);
}

TEST_P(SlowAmdGemm, EveryTypeAndLayoutIsMultipliedRight) {
  for (const char* dtype : dtypes()) {
    for (const char* layout : {"rrr", "crr", "ccr"}) {
      check_best(gemm_amd_family(), fmt::format("m=84:n=100:k=144:a={}:layout={}", dtype, layout));
    }
  }
}

TEST_P(AmdGemm, TailsOfEveryDimensionAreRight) {
  for (const char* text :
       {"m=67:n=35:k=75:a=bf16", "m=1:n=1:k=1:a=f16", "m=33:n=129:k=259:a=i8:scale_a=f32:scale_b=f32",
        "m=66:n=35:k=77:a=bf16:layout=rrr", "m=35:n=66:k=77:a=i8:layout=ccr"}) {
    check_best(gemm_amd_family(), text);
  }
}

TEST_P(SlowAmdGemm, EveryTileOfTheFamilyIsRight) {
  const std::string text = "m=270:n=264:k=200:a=bf16";
  const GemmProblem problem = parse(text);
  std::set<std::string> seen;
  for (const Candidate& candidate : gemm_amd_family().candidates(erase(problem), device->spec())) {
    if (!seen.insert(candidate.step.key.text).second) continue;
    run(gemm_amd_family(), problem, text, candidate.step);
  }
  EXPECT_GE(seen.size(), 5u);
}

// What a longer K adds is the main loop's.
TEST_P(SlowAmdGemm, TheMainLoopsOfLargeTilesAreFreeOfBankConflicts) {
  for (const char* layout : {"rcr", "ccr"}) {
    for (const char* dtype : {"bf16", "i8"}) {
      emu::LdsTraffic traffic[2];
      for (const int k : {0, 1}) {
        const std::string text = fmt::format("m=256:n=256:k={}:a={}:layout={}", 256 + 256 * k, dtype, layout);
        check_best(gemm_amd_family(), text, [](const RecipeStep& step) {
          return step.key.text.find("tile_m=128:tile_n=128") != std::string::npos && step.knobs == Knobs{};
        });
        traffic[k] = device->counters().lds;
      }
      const auto passes = static_cast<double>(traffic[1].passes - traffic[0].passes);
      const auto conflicts = static_cast<double>(traffic[1].conflicts - traffic[0].conflicts);
      EXPECT_GT(passes, 0);
      EXPECT_LE(conflicts, 0.02 * passes) << dtype << " " << layout;
    }
  }
}

TEST_P(AmdGemm, AGateAndABiasAreApplied) {
  check_best(gemm_amd_family(), "m=40:n=72:k=64:a=bf16:gate=separated:act=silu");
  check_best(gemm_amd_family(), "m=40:n=72:k=64:a=i8:scale_a=f32:scale_b=f32:bias=f32:act=gelu:d=f32");
}

TEST_P(SlowAmdGemm, EpiloguesAreAppliedAsOnEveryDevice) {
  for (const char* text :
       {"m=40:n=72:k=64:a=bf16:bias=bf16:act=gelu:alpha=1", "m=40:n=72:k=64:a=f16:c=f16:steps=mul.f32+act.silu",
        "m=40:n=72:k=64:a=bf16:gate=interleaved:act=gelu_tanh:bias=f32", "m=20:n=40:k=64:a=bf16:batch=3:act=relu"}) {
    check_best(gemm_amd_family(), text);
  }
}

TEST_P(AmdGemm, CopiesStraightToLdsBringBothHalvesOfAGateAndTheEndOfK) {
  if (target != "gfx950") GTEST_SKIP() << "this target loads no 16 bytes straight to LDS";
  const auto direct = [](const RecipeStep& step) { return step.key.text.find("direct=1") != std::string::npos; };
  check_best(gemm_amd_family(), "m=70:n=264:k=72:a=bf16:gate=separated:act=silu", direct);
  check_best(gemm_amd_family(), "m=70:n=264:k=208:a=e4m3:gate=separated:act=silu", direct);
}

TEST_P(AmdGemm, PartsOfKAreAddedInTheirOrder) {
  const auto knob = [](size_t which) { return [which](const RecipeStep& s) { return s.knobs.values[which] > 0; }; };
  check_best(gemm_amd_family(), "m=20:n=72:k=2056:a=bf16:bias=f32", knob(1));
  check_best(gemm_amd_family(), "m=20:n=72:k=2056:a=bf16:batch=2:gate=separated:act=silu", knob(1));
  // Stream-K: workers that end inside of tiles, and tiles that several of them share.
  const std::string text = "m=300:n=270:k=520:a=bf16";
  const GemmProblem problem = parse(text);
  RecipeStep step = gemm_amd_family().candidates(erase(problem), device->spec()).front().step;
  for (const int64_t workers : {1, 2, 7, 13}) {
    step.knobs.values = {0, 0, workers};
    run(gemm_amd_family(), problem, text, step);
  }
}

TEST_P(AmdGemm, TheGenericKernelTakesWhatOthersRefuse) {
  for (const char* text : {"m=5:n=7:k=0:a=bf16:bias=f32", "m=33:n=34:k=35:a=f32:layout=crr",
                           "m=20:n=30:k=40:a=e4m3fnuz", "m=20:n=30:k=40:a=e5m2:layout=ccr", "m=3:n=5:k=200000:a=i8"}) {
    check_best(gemm_generic_gpu_family(), text);
  }
}

}  // namespace
}  // namespace tilewright
