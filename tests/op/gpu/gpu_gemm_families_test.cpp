// SPDX-License-Identifier: MIT
// Every CUDA family of gemm on a GPU, without dispatch: its best kernels and, where it splits K, its best split give right
// results at ragged sizes, for each type, layout, alignment and epilogue.
#include <set>

#include "dispatch/problem_instance.hpp"
#include "op/gpu/gpu_test.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

class GpuGemmFamilies : public test::GpuTest {
 protected:
  void check(const std::string& text, InputData data = InputData::kNormal) {
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    int families = 0;
    for (const KernelFamily* family : gemm_operator().families()) {
      if (!family->supports(erase(*problem), device->spec())) continue;
      ++families;
      for (const RecipeStep& step : some_of(*family, family->candidates(erase(*problem), device->spec()))) {
        SCOPED_TRACE(text + "  " + step.key.text + "@" + print_knobs(*family, step.knobs));
        run(*problem, *family, step, data);
      }
    }
    EXPECT_GT(families, 0) << text;
  }

  // The two best kernels, and the best of each count of stages: splits are launches of their own. With `fields`, also the
  // best with each value of these fields of the config.
  std::vector<RecipeStep> some_of(const KernelFamily& family, const std::vector<Candidate>& candidates) const {
    const size_t last = family.knob_names().empty() ? 0 : family.knob_names().size() - 1;
    std::vector<RecipeStep> chosen;
    std::set<std::string> keys, values;
    std::set<int64_t> last_knobs;
    for (const Candidate& candidate : candidates) {
      const std::string& text = candidate.step.key.text;
      bool is_new = keys.size() < 2 && keys.insert(text).second;
      is_new |= last_knobs.size() < 3 && last_knobs.insert(candidate.step.knobs.values[last]).second;
      for (const std::string& field : fields) is_new |= values.insert(field_of(text, field)).second;
      if (is_new) chosen.push_back(candidate.step);
    }
    return chosen;
  }
  static std::string field_of(const std::string& text, const std::string& name) {
    const size_t at = text.find(name);
    return at == std::string::npos ? "" : text.substr(at, text.find(':', at + 1) - at);
  }

  void run(const GemmProblem& problem, const KernelFamily& family, const RecipeStep& step,
           InputData data = InputData::kNormal) {
    const auto kernel = kernel_of(family, step.key);
    ASSERT_TRUE(kernel != nullptr || family.backend() == Backend::kVendor);
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
    Result<std::unique_ptr<ProblemInstance>> instance = make_gemm_instance(problem, *device, {});
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    (*instance)->fill(1, data);
    (*instance)->poison();
    const Status status = run_plan(*device, plan, (*instance)->bindings(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(device->synchronize().ok());
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << report.failure;
    RecordProperty(fmt::format("{}@{} {}", problem.k, step.key.text, print_knobs(family, step.knobs)),
                   fmt::format("{:.3f} of the allowed error", report.worst_ratio));
    if (family.backend() == Backend::kVendor) replay(plan, **instance);
  }

  // The same from a graph.
  void replay(const Plan& plan, ProblemInstance& instance) {
    instance.poison();
    const test::GpuStream stream(0);
    test::GpuGraph graph(stream);
    const Status status = run_plan(*device, plan, instance.bindings(), stream.launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(graph.end().ok());
    ASSERT_TRUE(graph.replay());
    const VerifyReport report = instance.verify();
    EXPECT_TRUE(report.passed) << report.failure << " (from a graph)";
  }

  std::vector<std::string> fields;
};

class GpuGemmFamiliesOf : public GpuGemmFamilies, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Inputs, GpuGemmFamiliesOf, testing::Values("bf16", "f16", "f32", "i8", "e4m3", "e5m2"),
                         [](const auto& suite) { return std::string(suite.param); });

TEST_P(GpuGemmFamiliesOf, EveryLayoutIsMultipliedRight) {
  for (const char* layout : {"rcr", "rrr", "crr", "ccr", "rcc"}) {
    check(fmt::format("m=264:n=200:k=328:a={}:layout={}", GetParam(), layout));
  }
}

TEST_F(GpuGemmFamilies, Tf32IsMultipliedWhereItIsAllowed) {
  for (const char* text :
       {"m=264:n=200:k=328:a=f32:allow_tf32=1", "m=264:n=200:k=328:a=f32:layout=crr:allow_tf32=1",
        "m=67:n=35:k=45:a=f32:allow_tf32=1", "m=1024:n=1000:k=4096:a=f32:allow_tf32=1:bias=f32:act=gelu",
        "m=33:n=200:k=8192:a=f32:allow_tf32=1", "m=130:n=200:k=64:a=f32:batch=2:allow_tf32=1:c=f32:steps=mul.f32"}) {
    check(text);
  }
  check("m=300:n=264:k=8192:a=f32:allow_tf32=1", InputData::kPositive);
}

TEST_F(GpuGemmFamilies, SumsAreFastWhereThatIsAllowed) {
  fields = {":promote=", ":tile_m=", ":tile_n=", ":splits="};
  for (const char* text :
       {"m=264:n=200:k=336:a=e4m3", "m=1500:n=8208:k=1040:a=e4m3:scale_a=f32:scale_b=f32",
        "m=512:n=4096:k=4096:a=e5m2:d=f32:scale_a=f32:scale_b=f32:bias=f32:act=gelu", "m=67:n=35:k=45:a=e4m3",
        "m=300:n=264:k=16384:a=e4m3", "m=1500:n=8208:k=640:a=e5m2:gate=separated:act=silu:scale_a=f32",
        "m=1:n=4096:k=7168:a=e4m3:scale_a=f32:scale_b=f32", "m=20:n=1000:k=7168:a=e5m2:scale_a=f32:scale_b=f32",
        "m=128:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32", "m=40:n=512:k=16384:a=e4m3:scale_a=f32"}) {
    check(std::string(text) + ":allow_fast_accum=1");
  }
}

TEST_F(GpuGemmFamilies, ScalesOfGroupsMultiplyTheirOwnBlocks) {
  fields = {":promote=", ":tile_m=", ":tile_n=", ":tokens=", ":splits=", ":cluster="};
  for (const char* text :
       {"m=1:n=2112:k=7168", "m=16:n=4096:k=1536:alpha=1", "m=33:n=1000:k=1040:bias=f32:act=gelu:d=f32",
        "m=64:n=7168:k=2048:a=e5m2", "m=100:n=2120:k=7168", "m=128:n=4096:k=512:batch=3", "m=20:n=512:k=16384",
        "m=77:n=2048:k=1040:gate=separated:act=silu", "m=128:n=2048:k=4096:gate=interleaved:act=silu:bias=bf16",
        "m=1500:n=2120:k=1040", "m=300:n=2112:k=7168:a=e5m2:d=f32", "m=700:n=2056:k=528:batch=2:bias=f16",
        "m=1500:n=4096:k=640:gate=separated:act=silu", "m=264:n=200:k=16:c=bf16:steps=act.relu"}) {
    const std::string dtype = std::string(text).find(":a=") == std::string::npos ? ":a=e4m3" : "";
    check(text + dtype + ":scale_a=f32.1x128:scale_b=f32.128x128");
  }
}

TEST_F(GpuGemmFamilies, EveryTileIsWrittenWholeAlsoWhereItsLeftOversAreSplit) {
  fields = {":tile_m=", ":tile_n="};
  for (const char* text :
       {"m=1500:n=2120:k=320", "m=900:n=2120:k=640:a=i8:scale_a=f32:scale_b=f32:bias=f32:act=gelu:d=f16",
        "m=900:n=2120:k=1040:a=e4m3:scale_a=f32:scale_b=f32", "m=1500:n=2120:k=1024:a=f16:d=f32",
        "m=700:n=2120:k=264:batch=2:steps=act.relu"}) {
    check(text);
  }
}

TEST_F(GpuGemmFamilies, RaggedSizesAndOddStridesAreServed) {
  for (const char* text :
       {"m=1:n=1:k=1", "m=1:n=4099:k=1031", "m=67:n=35:k=45", "m=131:n=130:k=258",
        "m=5:n=3:k=7:sa=0.100.3:sb=0.2.50:sd=0.9.2", "m=67:n=70:k=45:a=f32:sa=0.100.2",
        "m=70:n=41:k=208:a=i8:layout=rrr", "m=67:n=35:k=45:a=e4m3", "m=131:n=70:k=208:a=e5m2:layout=rrr",
        "m=300:n=200:k=100:batch=3:align=8.4.2", "m=300:n=200:k=96:batch=3:sb=0.1.96"}) {
    check(text);
  }
}

TEST_F(GpuGemmFamilies, EpiloguesGiveWhatTheirArgumentsSay) {
  for (const Activation activation :
       {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu, Activation::kSigmoid,
        Activation::kTanh, Activation::kHardswish, Activation::kClamp}) {
    check(fmt::format("m=130:n=200:k=64:d=f32:bias=f32:act={}", kActivationNames[static_cast<int>(activation)]));
  }
  for (const char* text :
       {"m=130:n=200:k=64:scale_a=f32:scale_b=f32:bias=bf16:alpha=1",
        "m=130:n=200:k=64:a=i8:scale_a=f32:scale_b=f32:bias=f16",
        "m=130:n=200:k=1088:a=e4m3:scale_a=f32:scale_b=f32:bias=bf16:act=gelu",
        "m=130:n=200:k=64:a=e5m2:gate=separated:act=silu:scale_a=f32:scale_b=f32",
        "m=130:n=200:k=64:gate=separated:act=silu", "m=130:n=202:k=64:gate=interleaved:act=silu:bias=f32",
        "m=130:n=200:k=64:c=bf16",
        "m=130:n=200:k=64:batch=2:d=f32:c=f32:bias=f16:act=tanh:steps=mul.bf16+act.hardswish+add.f32",
        "m=130:n=200:k=64:gate=separated:act=sigmoid:c=bf16:steps=add.bf16"}) {
    check(text);
  }
}

// More tiles than a GPU has blocks: what a block still holds of a tile when it begins the next one, and what is left over.
TEST_F(GpuGemmFamilies, EachOfABlocksManyTilesIsWrittenWhole) {
  for (const char* text :
       {"m=1500:n=8200:k=320", "m=1500:n=8208:k=320:a=i8:scale_a=f32:scale_b=f32:bias=bf16",
        "m=1500:n=8208:k=1040:a=e4m3:scale_a=f32:scale_b=f32", "m=1500:n=8200:k=64:gate=separated:act=silu",
        "m=1500:n=8208:k=640:a=e5m2:gate=separated:act=silu:scale_a=f32", "m=700:n=2056:k=520:batch=5:bias=f16"}) {
    check(text);
  }
}

TEST_F(GpuGemmFamilies, FewRowsAndALongKAreSplit) {
  for (const char* text : {"m=1:n=512:k=8192", "m=16:n=1000:k=16384:bias=f32", "m=40:n=512:k=8192:a=i8:scale_a=f32",
                           "m=40:n=512:k=16384:a=e4m3:scale_a=f32", "m=16:n=1024:k=8192:gate=separated:act=silu",
                           "m=33:n=200:k=4096:a=f32"}) {
    check(text);
  }
}

// Where sums only grow, what instructions cut off adds up.
TEST_F(GpuGemmFamilies, SumsOfOneSignKeepToTheToleranceOfTheirType) {
  fields = {":splits="};  // one part is the longest sum
  for (const char* dtype : {"bf16", "f16", "e4m3", "e5m2"}) {
    for (const int m : {8, 48, 300}) {
      check(fmt::format("m={}:n=264:k=16384:a={}:d=f32", m, dtype), InputData::kPositive);
    }
  }
  fields = {":splits=", ":promote="};
  for (const char* dtype : {"e4m3", "e5m2"}) {
    for (const int m : {8, 48, 300}) {
      check(fmt::format("m={}:n=264:k=16384:a={}:d=f32:allow_fast_accum=1", m, dtype), InputData::kPositive);
    }
  }
}

TEST_F(GpuGemmFamilies, FewRowsShareTheKOfATile) {
  fields = {":splits=", ":cluster="};
  for (const char* text :
       {"m=1:n=4096:k=4096", "m=16:n=2112:k=7168", "m=33:n=1000:k=1000:d=f32:bias=f32:act=gelu",
        "m=64:n=7168:k=2048:a=f16", "m=100:n=300:k=4104:batch=3", "m=128:n=4096:k=4096:a=i8:scale_a=f32:scale_b=f32",
        "m=128:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32", "m=20:n=1000:k=7168:a=e5m2:scale_a=f32:scale_b=f32",
        "m=77:n=2002:k=1032:gate=separated:act=silu", "m=128:n=2002:k=4096:gate=interleaved:act=silu:bias=bf16"}) {
    check(text);
  }
}

TEST_F(GpuGemmFamilies, RowsThatFitOneInstructionStreamTheWeights) {
  for (const char* text :
       {"m=1:n=4096:k=4096", "m=8:n=77:k=4104:d=f32:bias=f32:act=gelu", "m=3:n=41:k=1040:a=i8:scale_a=f32:scale_b=f32",
        "m=1:n=4096:k=7168:a=e4m3:scale_a=f32:scale_b=f32", "m=8:n=41:k=1040:a=e5m2:scale_a=f32:scale_b=f32",
        "m=5:n=202:k=264:gate=separated:act=silu", "m=2:n=202:k=264:gate=interleaved:act=silu",
        "m=7:n=33:k=72:batch=3:c=bf16", "m=4:n=9:k=8:a=f16:steps=add.f16+act.gelu"}) {
    check(text);
  }
}

// Narrow weights beside 16-bit rows of A: each type and group, ragged sizes, gates, every tile and way to share K.
class GpuNarrowWeights : public GpuGemmFamilies, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Problems, GpuNarrowWeights,
    testing::Values(
        "m=1:n=4096:k=4096:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=8:n=77:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:d=f32",
        "m=16:n=2112:k=7168:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=33:n=1000:k=1056:a=bf16:b=e2m1:scale_b=e8m0.1x64",
        "m=64:n=2048:k=2048:a=bf16:b=e2m1:scale_b=e8m0.1x128:bias=f32:act=gelu",
        "m=100:n=300:k=4128:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=3", "m=16:n=1000:k=2048:a=bf16:b=e4m3",
        "m=60:n=1000:k=1040:a=f16:b=e5m2:scale_b=f32:bias=f16", "m=9:n=515:k=1040:a=f16:b=e4m3:batch=2",
        "m=1:n=4096:k=4096:a=bf16:b=e4m3:scale_b=f32.1x128", "m=16:n=1000:k=2080:a=bf16:b=e4m3:scale_b=f16.1x32",
        "m=64:n=515:k=2096:a=f16:b=e5m2:scale_b=bf16.1x64:d=f32", "m=33:n=1000:k=2080:a=f16:b=e2m1:scale_b=e8m0.1x32",
        "m=7:n=2048:k=4096:a=bf16:b=e2m1:scale_b=f32.1x128", "m=64:n=1000:k=2112:a=bf16:b=e2m1:scale_b=f16.1x64",
        "m=48:n=300:k=2048:a=bf16:b=e4m3:scale_b=e8m0.1x128:batch=2",
        "m=20:n=512:k=8192:a=f16:b=e2m1:scale_b=e4m3.1x32", "m=1:n=4096:k=4096:a=bf16:b=i4:scale_b=f16.1x128",
        "m=16:n=1000:k=2080:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4",
        "m=60:n=515:k=2080:a=f16:b=u4:scale_b=f32.1x64:zero_b=u4",
        "m=5:n=1000:k=2080:a=f16:b=i4:scale_b=bf16.1x32:zero_b=i4:batch=2", "m=33:n=1000:k=1056:a=bf16:b=i4",
        "m=64:n=1000:k=8192:a=bf16:b=i4:scale_b=f16.1x128", "m=60:n=515:k=8192:a=f16:b=u4:scale_b=f16.1x64:zero_b=i4",
        "m=2:n=515:k=28672:a=bf16:b=i4:scale_b=f16.1x128", "m=4:n=777:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=5",
        "m=20:n=515:k=1040:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8",
        "m=64:n=1000:k=1040:a=f16:b=i8:scale_b=f32.1x32:zero_b=i8", "m=8:n=1000:k=1040:a=bf16:b=i8:scale_b=f32",
        "m=13:n=2048:k=2048:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu",
        "m=1:n=4096:k=4096:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32",
        "m=60:n=777:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:batch=5",
        "m=100:n=300:k=4128:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x64:batch=3",
        "m=13:n=2048:k=2048:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated:act=silu",
        "m=1:n=4096:k=4096:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
        "m=60:n=777:k=2880:a=bf16:b=u4:packed=fragments:scale_b=f16.1x32:zero_b=u4:batch=5",
        "m=100:n=300:k=4160:a=f16:b=i4:packed=fragments",
        "m=13:n=2048:k=2048:a=bf16:b=i4:packed=fragments:scale_b=bf16.1x64:gate=separated:act=silu",
        "m=64:n=2016:k=1056:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=interleaved:act=silu:bias=bf16",
        "m=30:n=2048:k=2048:a=f16:b=e4m3:scale_b=f32.1x128:gate=separated:act=silu",
        // Columns that share a scale.
        "m=16:n=1000:k=2080:a=bf16:b=e4m3:scale_b=f32.128x128", "m=300:n=777:k=2080:a=f16:b=e4m3:scale_b=f32.128x128",
        // Rows in several pieces.
        "m=130:n=1000:k=2112:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
        "m=1000:n=777:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=2",
        "m=300:n=515:k=2080:a=f16:b=u4:scale_b=f32.1x64:zero_b=u4", "m=257:n=1000:k=1040:a=bf16:b=i8:scale_b=f32:d=f32",
        "m=129:n=2048:k=2048:a=bf16:b=i4:packed=fragments:scale_b=bf16.1x64:gate=separated:act=silu",
        "m=700:n=300:k=4128:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x64:batch=3",
        "m=385:n=1000:k=1040:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8:bias=f32:act=gelu"));

TEST_P(GpuNarrowWeights, AreWidenedRight) {
  fields = {":rows=", ":tokens=", ":warpgroups=", ":warps=", ":blocks=", ":splits=", ":scale_row="};
  check(GetParam());
}

TEST_F(GpuGemmFamilies, PartsOfPackedIntegersMeetInAClusterOfEachSize) {
  fields = {":cluster=", ":tokens="};
  for (const char* text : {"m=1:n=2048:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
                           "m=13:n=777:k=4160:a=f16:b=u4:packed=fragments:scale_b=f32.1x64:zero_b=u4:batch=2",
                           "m=61:n=2002:k=2112:a=bf16:b=i4:packed=fragments:scale_b=f16.1x32:bias=f32:act=gelu",
                           "m=13:n=2048:k=2048:a=bf16:b=i4:packed=fragments:scale_b=bf16.1x64:gate=separated:act=silu",
                           "m=101:n=1000:k=4160:a=f16:b=i4:packed=fragments:d=f32"}) {
    check(text);
  }
}

TEST_F(GpuGemmFamilies, EveryAlgorithmThatCublasLtProposesIsRight) {
  const KernelFamily& family = gemm_cublaslt_family();
  if (const Status s = family.supports(erase(*parse_gemm_problem("m=64:n=64:k=64")), device->spec()); !s) {
    GTEST_SKIP() << s.message();
  }
  std::vector<std::string> texts = {"m=1:n=4096:k=4096",
                                    "m=16:n=512:k=8192",
                                    "m=264:n=200:k=328:layout=rcc:c=bf16.0.1.264",
                                    "m=130:n=200:k=64:d=f32:bias=f32:act=gelu_tanh:alpha=1",
                                    "m=130:n=200:k=64:d=f32:bias=f32:act=relu",
                                    "m=300:n=200:k=96:batch=3:c=bf16",
                                    "m=300:n=200:k=96:batch=3:sb=0.1.96",
                                    "m=64:n=256:k=512:a=f32",
                                    "m=64:n=256:k=512:a=f32:allow_tf32=1",
                                    "m=67:n=35:k=45:align=2.2.2",
                                    "m=67:n=1:k=45",
                                    "m=96:n=128:k=256:a=f16:deterministic=1",
                                    "m=130:n=208:k=1024:bias=bf16:c=bf16:act=relu",
                                    "m=130:n=208:k=1024:bias=bf16:align=16.16.16.16.2",
                                    "m=130:n=208:k=4096:a=e4m3:scale_a=f32:scale_b=f32",
                                    "m=130:n=208:k=4096:a=e4m3:scale_a=f32:scale_b=f32:allow_fast_accum=1",
                                    "m=130:n=208:k=1024:a=e4m3:d=f32:scale_a=f32.0.0.0:bias=bf16",
                                    "m=132:n=272:k=640:a=e4m3:scale_a=f32.1x128.0.1.132:scale_b=f32.128x128.0.8.1",
                                    "m=132:n=272:k=640:a=e4m3:scale_a=f32.1x128.0.1.132:scale_b=f32.1x128.0.1.272"};
  for (const char* layout : {"rcr", "rrr", "crr", "ccr", "rcc", "crc"}) {
    for (const char* dtype : {"bf16", "f16", "f32"}) {
      texts.push_back(fmt::format("m=264:n=200:k=328:a={}:layout={}", dtype, layout));
    }
  }
  for (const std::string& text : texts) {
    const GemmProblem problem = *parse_gemm_problem(text);
    const std::vector<Candidate> found = family.candidates(erase(problem), device->spec());
    EXPECT_FALSE(found.empty()) << text << ": " << family.supports(erase(problem), device->spec()).message();
    for (const Candidate& candidate : found) {
      SCOPED_TRACE(text + "  " + candidate.step.key.text);
      const Status legal = family.check(erase(problem), device->spec(), candidate.step);
      EXPECT_TRUE(legal.ok()) << legal.message();
      run(problem, family, candidate.step);
    }
  }
}

TEST_F(GpuGemmFamilies, TheGenericKernelTakesWhatTheOthersRefuse) {
  for (const char* text : {"m=37:n=45:k=77:packed=1:batch=2", "m=37:n=45:k=77:a=i8:packed=1", "m=5:n=7:k=0:bias=f32",
                           "m=37:n=46:k=77:a=f32:packed=1:gate=separated:act=silu",
                           "m=37:n=45:k=300:a=bf16:b=e2m1:packed=fragments:batch=2",
                           "m=37:n=45:k=300:a=bf16:b=i4:packed=fragments:scale_b=f16.1x32:batch=2"}) {
    check(text);
  }
}

}  // namespace
}  // namespace tilewright
