// SPDX-License-Identifier: MIT
// grouped_gemm_sm90 on a GPU, without dispatch: each way to cut, to sum and to take tiles gives right results for groups of
// any size, and the counters that blocks take tiles from are left as they were found.
#include <fmt/format.h>

#include <set>

#include "dispatch/problem_instance.hpp"
#include "op/gpu/gpu_test.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "ops/grouped_gemm/instance/grouped_gemm_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

class GpuGroupsOf : public test::GpuTest {
 protected:
  explicit GpuGroupsOf(const KernelFamily& of) : family(of) {}

  void SetUp() override {
    GpuTest::SetUp();
    if (device != nullptr && !hopper()) GTEST_SKIP() << "no GPU of sm_90a";
  }

  // Seeds spread the rows at random, into one group, evenly, and past what there is.
  void check(const std::string& text, InputData data = InputData::kNormal) {
    const Result<GroupedGemmProblem> problem = parse_grouped_gemm_problem(text);
    ASSERT_TRUE(problem.ok()) << text << ": " << problem.status().message();
    const Status supported = family.supports(erase(*problem), device->spec());
    ASSERT_TRUE(supported.ok()) << text << ": " << supported.message();
    for (const RecipeStep& step : some_of(family.candidates(erase(*problem), device->spec()))) {
      SCOPED_TRACE(text + "  " + step.key.text + "@" + print_knobs(family, step.knobs));
      run(*problem, step, data);
    }
  }

  const KernelFamily& family;
  size_t shapes = 3;         // of tiles that are tried: each is compiled
  bool in_clusters = false;  // of those only

 private:
  // Shapes of tiles from the best to the last, with one way to take tiles; of the best all ways.
  std::vector<RecipeStep> some_of(const std::vector<Candidate>& candidates) const {
    std::vector<RecipeStep> chosen, firsts;
    std::set<std::string> keys;
    for (const Candidate& candidate : candidates) {
      if (in_clusters && candidate.step.key.text.ends_with("cluster=1")) continue;
      if (keys.insert(candidate.step.key.text).second) {
        firsts.push_back(candidate.step);
      } else if (candidate.step.key.text == firsts.front().key.text) {
        chosen.push_back(candidate.step);
      }
    }
    const size_t count = std::min(shapes, firsts.size());
    for (size_t i = 0; i < count; ++i) chosen.push_back(firsts[i * firsts.size() / count]);
    return chosen;
  }

  void run(const GroupedGemmProblem& problem, const RecipeStep& step, InputData data) {
    const auto kernel = kernel_of(family, step.key);
    ASSERT_NE(kernel, nullptr);
    Result<std::vector<Stage>> stages = family.stages(erase(problem), device->spec(), step, kernel);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    Plan plan;
    plan.stages = std::move(*stages);
    plan.workspace_bytes = family.workspace_bytes(erase(problem), device->spec(), step);
    for (Stage& stage : plan.stages) {
      for (const TensorMapSpec& map : stage.tensor_maps) {
        const Status status = device->encode_tensor_map(map, stage.args.data() + map.arg_offset);
        ASSERT_TRUE(status.ok()) << status.message();
      }
    }
    Result<std::unique_ptr<ProblemInstance>> instance = make_grouped_gemm_instance(problem, *device, {});
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    for (const uint64_t seed : {1, 2, 3, 4}) {
      SCOPED_TRACE(seed);
      (*instance)->fill(seed, data);
      (*instance)->poison();
      const Status status = run_plan(*device, plan, (*instance)->bindings(), {});
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(device->synchronize().ok());
      const VerifyReport report = (*instance)->verify();
      ASSERT_TRUE(report.passed) << report.failure;
    }
  }
};

class GpuGroupedGemm : public GpuGroupsOf {
 protected:
  GpuGroupedGemm() : GpuGroupsOf(grouped_gemm_sm90_family()) {}
};

TEST_F(GpuGroupedGemm, EveryTileOf16BitsIsMultipliedRight) {
  shapes = 32;
  check("groups=5:m=1100:n=328:k=264:a=bf16:status=1");
}

TEST_F(GpuGroupedGemm, EveryTileWithScalesOfGroupsIsMultipliedRight) {
  shapes = 32;
  check("groups=4:m=1100:n=640:k=1040:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1");
}

TEST_F(GpuGroupedGemm, GroupsOfAnyNumberOfRowsAreMultipliedRight) {
  for (const char* text : {"groups=5:m=133:n=200:k=264:a=bf16:status=1", "groups=1:m=1:n=8:k=8:a=bf16",
                           "groups=40:m=17:n=136:k=1032:a=bf16:status=1",
                           "groups=1024:m=2000:n=64:k=64:a=bf16:status=1", "groups=8:m=2048:n=1024:k=512:a=bf16"}) {
    check(text);
  }
}

// Tiles of the weights odd and even in number, groups of no rows and of all.
TEST_F(GpuGroupedGemm, BlocksOfAClusterBringTheirTokensForAll) {
  in_clusters = true;
  for (const char* text : {"groups=5:m=700:n=328:k=1032:a=bf16:status=1", "groups=300:m=5000:n=512:k=512:a=bf16",
                           "mode=masked:groups=6:m=300:n=640:k=264:a=bf16:status=1",
                           "groups=64:m=6000:n=2176:k=512:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1",
                           "groups=4:m=700:n=328:k=272:a=e4m3:scale_a=f32:scale_b=f32:bias=f32:act=gelu",
                           "groups=4:m=700:n=768:k=136:a=bf16:gate=separated:act=silu:bias=bf16",
                           "groups=4:m=700:n=768:k=136:a=bf16:gate=interleaved:act=silu"}) {
    check(text);
  }
}

TEST_F(GpuGroupedGemm, TypesOf16BitsAreWrittenAsF32) { check("groups=3:m=700:n=328:k=136:a=f16:d=f32"); }

TEST_F(GpuGroupedGemm, ScalesOfGroupsMultiplyTheirOwnRowsAndBlocks) {
  for (const char* text : {"groups=5:m=133:n=200:k=272:a=e4m3", "groups=256:m=2048:n=256:k=512:a=e4m3",
                           "mode=masked:groups=6:m=70:n=384:k=784:a=e4m3:status=1"}) {
    check(std::string(text) + ":scale_a=f32.1x128:scale_b=f32.128x128");
  }
}

TEST_F(GpuGroupedGemm, ScalesOfGroupsAndAGateGoTogether) {
  check("groups=3:m=500:n=512:k=400:a=e4m3:gate=separated:act=silu:scale_a=f32.1x128:scale_b=f32.128x128");
}

TEST_F(GpuGroupedGemm, ScalesOfGroupsMultiplyE5m2) {
  check("groups=7:m=600:n=264:k=128:a=e5m2:d=f32:scale_a=f32.1x128:scale_b=f32.128x128");
}

TEST_F(GpuGroupedGemm, MaskedGroupsKeepToTheirRows) {
  for (const char* text : {"mode=masked:groups=4:m=33:n=72:k=72:a=bf16:status=1",
                           "mode=masked:groups=256:m=16:n=256:k=512:a=bf16:rows=8:status=1"}) {
    check(text);
  }
}

TEST_F(GpuGroupedGemm, WhereGroupsLieMayBeSaidInEachWay) {
  for (const char* extents : {"offsets", "ends", "both", "sizes:align_rows=128", "sizes:align_rows=16"}) {
    check(fmt::format("groups=9:m=1300:n=136:k=200:a=bf16:extents={}:status=1", extents));
  }
}

TEST_F(GpuGroupedGemm, ScalesOfRowsAndColumnsBiasAndActivationsAreTheGroupsOwn) {
  check("groups=4:m=300:n=200:k=272:a=e4m3:scale_a=f32:scale_b=f32:bias=f32:act=gelu");
  check("mode=masked:groups=3:m=300:n=520:k=264:a=bf16:bias=f32:act=gelu:status=1");
}

TEST_F(GpuGroupedGemm, IntegersAreSummedWhole) { check("groups=4:m=300:n=200:k=272:a=i8:scale_a=f32:scale_b=f32"); }

TEST_F(GpuGroupedGemm, GatesMultiplyTheirOwnColumns) {
  check("groups=4:m=300:n=256:k=136:a=bf16:gate=separated:act=silu:bias=bf16");
  check("groups=4:m=300:n=256:k=136:a=bf16:gate=interleaved:act=silu");
}

TEST_F(GpuGroupedGemm, SumsAreFastWhereThatIsAllowed) {
  check("groups=4:m=300:n=200:k=4112:a=e4m3:allow_fast_accum=1:scale_a=f32");
}

TEST_F(GpuGroupedGemm, OddStridesOfDAreFollowed) { check("groups=3:m=200:n=37:k=64:a=bf16"); }

TEST_F(GpuGroupedGemm, SumsOfOneSignKeepToTheToleranceOfTheirType) {
  check("groups=3:m=300:n=264:k=8192:a=bf16:d=f32", InputData::kPositive);
  check("groups=3:m=300:n=264:k=8192:a=e4m3:d=f32:scale_a=f32.1x128:scale_b=f32.128x128", InputData::kPositive);
}

class GpuGroupedDequant : public GpuGroupsOf {
 protected:
  GpuGroupedDequant() : GpuGroupsOf(grouped_sm90_dequant_family()) { shapes = 4; }
};

TEST_F(GpuGroupedDequant, EveryTileOfMxfp4IsMultipliedRight) {
  shapes = 64;
  check("groups=5:m=300:n=456:k=1440:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1");
}

TEST_F(GpuGroupedDequant, GroupsOfAnyNumberOfRowsAreMultipliedRight) {
  for (const char* text : {"groups=128:m=256:n=2880:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1",
                           "groups=1:m=1:n=8:k=32:a=bf16:b=e2m1:scale_b=e8m0.1x32",
                           "groups=300:m=40:n=136:k=1056:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1",
                           "mode=masked:groups=32:m=20:n=264:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:rows=100:status=1",
                           "groups=9:m=600:n=136:k=512:a=bf16:b=e2m1:scale_b=e8m0.1x32:extents=both:status=1"}) {
    check(text);
  }
}

TEST_F(GpuGroupedDequant, PackedWeightsOfEveryGroupServe) {
  for (const char* text :
       {"groups=9:m=300:n=456:k=1440:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:status=1",
        "groups=8:m=200:n=512:k=1024:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated:act=silu:bias="
        "bf16",
        "groups=8:m=203:n=520:k=1088:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:status=1",
        "groups=300:m=40:n=136:k=1024:a=bf16:b=i4:packed=fragments:scale_b=bf16.1x64:status=1",
        "mode=masked:groups=32:m=20:n=264:k=512:a=f16:b=u4:packed=fragments:scale_b=f16.1x64:zero_b=u4:rows=100:"
        "status=1"}) {
    check(text);
  }
}

TEST_F(GpuGroupedDequant, OtherWeightsZeroPointsAndGatesAreTheGroupsOwn) {
  for (const char* text :
       {"groups=8:m=200:n=520:k=1024:a=bf16:b=i4:scale_b=f16.1x128:status=1",
        "groups=8:m=200:n=520:k=1024:a=f16:b=u4:scale_b=f16.1x64:zero_b=u4",
        "groups=8:m=200:n=520:k=1024:a=bf16:b=e4m3:scale_a=f32:scale_b=f32:bias=f32:act=gelu",
        "groups=8:m=200:n=512:k=1024:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu:bias=bf16",
        "groups=8:m=200:n=512:k=1024:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=interleaved:act=silu"}) {
    check(text);
  }
}

}  // namespace
}  // namespace tilewright
