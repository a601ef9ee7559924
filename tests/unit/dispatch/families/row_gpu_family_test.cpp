// SPDX-License-Identifier: MIT
// The GPU family of row operators asked without a GPU: how threads share rows, and how the stages of a call follow each other.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <tuple>

#include "ops/op_list.hpp"
#include "tile/common/row_config.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

const KernelFamily& row_family(const Operator& op) {
  return *find_family(op.families(), std::string(op.name()) + "_gpu");
}
Candidate first(const Operator& op, const char* target, const std::string& text) {
  const auto problem = op.parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.status().message();
  const std::vector<Candidate> found = row_family(op).candidates(*problem, test::cuda_device(target, 132));
  EXPECT_FALSE(found.empty()) << text;
  return found.empty() ? Candidate{} : found.front();
}
RowGpuConfig config_of(const Operator& op, const char* target, const std::string& text) {
  RowGpuConfig config{};
  EXPECT_TRUE(parse_fields(first(op, target, text).step.key.config(), config).ok()) << text;
  return config;
}
std::vector<Stage> stages_of(const Operator& op, const std::string& text) {
  const auto problem = op.parse_problem(text);
  auto stages = row_family(op).stages(*problem, test::cuda_device("sm_90a", 132), first(op, "sm_90a", text).step, {});
  EXPECT_TRUE(stages.ok()) << text << ": " << stages.status().message();
  return stages ? *stages : std::vector<Stage>{};
}

TEST(RowGpuFamily, WholeWarpsFillRowsOfModelsThatAreNoPowerOfTwo) {
  for (const int n : {768, 1536, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288}) {
    const RowGpuConfig c = config_of(rms_norm_operator(), "sm_90a", fmt::format("m=64:n={}:x=bf16:weight=bf16", n));
    EXPECT_TRUE(c.full) << n << ": " << c.threads << " x " << c.pieces;
    EXPECT_EQ(c.threads * c.pieces * kRowPiece, n);
  }
  for (const int n : {7168, 14336, 18432, 28672}) {  // blocks that take parts
    const RowGpuConfig c =
        config_of(act_and_mul_operator(), "sm_90a", fmt::format("m=64:n={}:x=bf16:gate=separated:activation=silu", n));
    EXPECT_TRUE(c.full) << n << ": " << c.threads << " x " << c.parts;
  }
}

TEST(RowGpuFamily, RowsThatNoWarpsFillLeaveFewOfThemIdle) {
  const RowGpuConfig c = config_of(rms_norm_operator(), "sm_90a", "m=64:n=2880:x=bf16:weight=bf16");
  EXPECT_FALSE(c.full);
  EXPECT_EQ(c.threads, 192);
  EXPECT_EQ(config_of(rms_norm_operator(), "sm_90a", "m=64:n=136:x=bf16").threads, 16);  // a power of two below a warp
}

TEST(RowGpuFamily, ThreadsTakeMorePiecesOfCodesWhereThereAreManyRows) {
  const auto shape = [](const Operator& op, const char* target, const std::string& text) {
    const RowGpuConfig c = config_of(op, target, text);
    return fmt::format("{}x{}/{}", c.threads, c.pieces, c.parts);
  };
  const std::string makes = "n=4096:x=bf16:out=e4m3:quant=group:scale=f32:group=128";
  EXPECT_EQ(shape(quantize_operator(), "sm_90a", "m=16:" + makes), "256x1/2");
  EXPECT_EQ(shape(quantize_operator(), "sm_90a", "m=1024:" + makes), "256x2/1");
  EXPECT_EQ(shape(quantize_operator(), "sm_90a", "m=4096:" + makes), "128x4/1");
  EXPECT_EQ(shape(quantize_operator(), "gfx942", "m=1024:" + makes), "128x4/1");
  const std::string reads = "n=4096:x=e4m3:out=bf16:quant=group:scale=f32:group=128";
  EXPECT_EQ(shape(dequantize_operator(), "sm_90a", "m=16:" + reads), "256x1/2");
  EXPECT_EQ(shape(dequantize_operator(), "sm_90a", "m=16384:" + reads), "256x2/1");
}

TEST(RowGpuFamily, FewRowsAreFetchedBeforeKernelsInFrontHaveEndedAndManyWait) {
  const auto edge = [](const Operator& op, const std::string& text, bool edged = true) {
    const std::string problem = text + (edged ? ":programmatic_edge=1" : "");
    const RowEdge found = config_of(op, "sm_90a", problem).edge;
    for (const Stage& stage : stages_of(op, problem))
      EXPECT_EQ(stage.shape.programmatic_edge, found != RowEdge::kNone) << problem;
    return found;
  };
  const std::string norm = "n=4096:x=bf16:weight=bf16", gate = "n=4096:x=bf16:gate=separated:activation=silu";
  EXPECT_EQ(edge(rms_norm_operator(), "m=16:" + norm, false), RowEdge::kNone);
  EXPECT_EQ(edge(rms_norm_operator(), "m=16:" + norm), RowEdge::kRehearse);
  EXPECT_EQ(edge(rms_norm_operator(), "m=16:n=4095:x=bf16:weight=bf16"), RowEdge::kFetch);  // nothing stays as it lies
  EXPECT_EQ(edge(rms_norm_operator(), "m=4096:" + norm), RowEdge::kWait);
  EXPECT_EQ(edge(rms_norm_operator(), "m=256:" + norm + ":out=e4m3:quant=group"), RowEdge::kNone);  // slower with one
  EXPECT_EQ(edge(act_and_mul_operator(), "m=16:" + gate), RowEdge::kFetch);
  EXPECT_EQ(edge(act_and_mul_operator(), "m=4096:" + gate), RowEdge::kWait);
  EXPECT_EQ(edge(softmax_operator(), "m=16:n=128256:x=bf16"), RowEdge::kNone);  // clusters
  // Both stages.
  EXPECT_EQ(edge(quantize_operator(), "m=16:n=4096:x=bf16:out=e4m3:quant=dynamic"), RowEdge::kFetch);
}

TEST(RowGpuFamily, AKernelServesCallsOfEitherKindOfEdge) {
  const Operator& op = act_and_mul_operator();
  const std::string plain = "m=16:n=4096:x=bf16:gate=separated:activation=silu", edged = plain + ":programmatic_edge=1";
  const auto serves = [&](const std::string& problem, const std::string& kernel) {
    return row_family(op).check(*op.parse_problem(problem), test::cuda_device("sm_90a", 132),
                                first(op, "sm_90a", kernel).step);
  };
  EXPECT_TRUE(serves(plain, edged).ok());
  EXPECT_TRUE(serves(edged, plain).ok());
  // What plain calls have built serves where nothing may be compiled.
  const DeviceSpec device = test::cuda_device("sm_90a", 132);
  for (const auto& [of, text] :
       {std::pair{&act_and_mul_operator(), "m=16:n=4096:x=bf16:gate=separated:activation=silu"},
        std::pair{&moe_routing_operator(), "t=16:e=256:k=8:x=bf16"},
        std::pair{&kv_cache_write_operator(), "t=16:k=8:n=128:x=bf16"}}) {
    const auto keys = [&of = *of, &device](const std::string& problem) {
      std::vector<std::string> all;
      for (const Candidate& c : row_family(of).candidates(*of.parse_problem(problem), device))
        all.push_back(c.step.key.text);
      return all;
    };
    const std::string edged_text = std::string(text) + ":programmatic_edge=1";
    EXPECT_NE(keys(edged_text).front(), keys(text).front());
    EXPECT_THAT(keys(edged_text), testing::Contains(keys(text).front()));
  }
  // What is not rehearsed.
  RecipeStep step = first(op, "sm_90a", edged).step;
  std::string config(step.key.config());
  config.replace(config.find("edge=fetch"), 10, "edge=rehearse");
  step.key = make_key(op.name(), "act_and_mul_gpu", "sm_90a", "x=bf16", config);
  const Status s = row_family(op).check(*op.parse_problem(edged), test::cuda_device("sm_90a", 132), step);
  EXPECT_THAT(s.message(), testing::HasSubstr("nothing that is rehearsed"));
}

TEST(RowGpuFamily, HowManyRowsThereAreDoesNotChangeARowsBits) {
  const auto numerics = [](const Operator& op, const std::string& text) {
    return row_family(op).numerics_id(first(op, "sm_90a", text).step);
  };
  for (const auto& [op, text] : {std::pair{&rms_norm_operator(), "x=bf16:weight=bf16"},
                                 std::pair{&rms_norm_operator(), "x=bf16:weight=bf16:out=i8:quant=row"},
                                 std::pair{&rms_norm_operator(), "x=bf16:residual=bf16:out=e4m3:quant=group"},
                                 std::pair{&layer_norm_operator(), "x=f32:weight=f32:bias=f32:out=e4m3:quant=row"},
                                 std::pair{&gated_rms_norm_operator(), "x=bf16:residual=bf16:weight=bf16"},
                                 std::pair{&rms_norm_backward_operator(), "x=bf16:residual=bf16:weight=bf16"},
                                 std::pair{&softmax_operator(), "x=bf16"}}) {
    for (const int n : {1000, 4096, 7168, 8192, 16384, 128256}) {
      const std::string behind = fmt::format(":n={}:{}", n, text);
      EXPECT_EQ(numerics(*op, "m=1" + behind), numerics(*op, "m=16384" + behind)) << op->name() << behind;
    }
  }
}

TEST(RowGpuFamily, HeadsAreSharedByTheBlocksThatRunAtATime) {
  for (const auto& [op, text, most] :
       {std::tuple{&rope_operator(), "m=1x16384x40:n=128:x=bf16:residual=bf16:heads=32:table_rows=16384", 3},
        std::tuple{
            &qk_norm_rope_cache_operator(),
            "t=16384:q=64:k=8:v=8:n=128:nv=128:x=bf16:qo=bf16:cache=bf16:weight=bf16:table=f32:norm=1:q_weight=1",
            2}}) {
    const std::vector<Stage> stages = stages_of(*op, text);
    ASSERT_EQ(stages.size(), 1u) << text;
    EXPECT_LE(stages[0].shape.grid[0], 132u * static_cast<unsigned>(most)) << text;
    EXPECT_GT(stages[0].shape.grid[0], 126u * static_cast<unsigned>(most)) << text;
  }
  EXPECT_EQ(stages_of(rope_operator(), "m=1x16x40:n=128:x=bf16:residual=bf16:heads=32:table_rows=16")[0].shape.grid[0],
            20u);
}

TEST(RowGpuFamily, GradientsHaveSlotsWhereTheirRowsFit) {
  constexpr const char* kText = "m=64:n={}:x={}:residual={}:weight=bf16:dweight=f32";
  const auto slots = [&](const char* target, int n, const char* x) {
    return config_of(rms_norm_backward_operator(), target, fmt::format(kText, n, x, x)).slots;
  };
  EXPECT_EQ(slots("sm_90a", 8192, "bf16"), 4);
  EXPECT_EQ(slots("sm_90a", 4096, "f16"), 4);
  EXPECT_EQ(slots("sm_90a", 2880, "bf16"), 0) << "no full rows";
  EXPECT_EQ(slots("sm_90a", 4096, "f32"), 0);
  EXPECT_EQ(slots("sm_90a", 16384, "bf16"), 0) << "more than the threads keep";
  EXPECT_EQ(slots("sm_80", 4096, "bf16"), 0);
  EXPECT_EQ(slots("gfx942", 4096, "bf16"), 0);
}

TEST(RowGpuFamily, BlocksThatShareAScaleHaveNoMoreTurnsThanRows) {
  for (const auto& [rows, pieces] : {std::pair{1, 1}, {16, 1}, {17, 2}, {64, 4}, {65, 8}, {128, 8}, {5000, 8}}) {
    const RowGpuConfig c =
        config_of(quantize_operator(), "sm_90a", fmt::format("m={}:n=4096:x=bf16:out=e4m3:quant=block", rows));
    EXPECT_EQ(c.pieces, pieces) << rows << " rows";
    EXPECT_EQ(c.full, rows == 16 || rows == 64 || rows == 128) << rows << " rows";
  }
  // A kernel of few rows refuses more.
  const RecipeStep step = first(quantize_operator(), "sm_90a", "m=16:n=4096:x=bf16:out=e4m3:quant=block").step;
  const std::vector<std::byte> more = *quantize_operator().parse_problem("m=32:n=4096:x=bf16:out=e4m3:quant=block");
  EXPECT_THAT(row_family(quantize_operator()).check(more, test::cuda_device("sm_90a", 132), step).message(),
              testing::HasSubstr("32 rows, the kernel takes 16"));
}

// Blocks of the cluster that takes all of a call in one launch; 0: there are several launches.
int cluster_of_all(const Operator& op, const std::string& text, const char* target, int units) {
  const std::vector<std::byte> problem = *op.parse_problem(text);
  const DeviceSpec device = test::cuda_device(target, units);
  const RecipeStep step = row_family(op).candidates(problem, device).front().step;
  const std::vector<Stage> stages = *row_family(op).stages(problem, device, step, {});
  if (stages.size() != 1) return 0;
  EXPECT_EQ(row_family(op).workspace_bytes(problem, device, step), 0);
  EXPECT_EQ(stages[0].shape.grid, stages[0].shape.cluster);
  EXPECT_LE(stages[0].shape.shared_bytes, row_family(op).launch_shared_bytes(step.key));
  EXPECT_FALSE(stages[0].shape.stage_edge);
  return static_cast<int>(stages[0].shape.cluster[0]);
}

TEST(RowGpuFamily, OneClusterTakesFewRowsOfAGradientInOneLaunch) {
  const auto cluster = [](int64_t m, int64_t n, const char* target, int units) {
    constexpr const char* kText = "m={}:n={}:x=bf16:residual=bf16:weight=bf16:dweight=bf16";
    return cluster_of_all(rms_norm_backward_operator(), fmt::format(kText, m, n), target, units);
  };
  EXPECT_EQ(cluster(1, 4096, "sm_90a", 132), 16);
  EXPECT_EQ(cluster(32, 4096, "sm_90a", 132), 16);
  EXPECT_EQ(cluster(33, 4096, "sm_90a", 132), 0) << "more rows than are worth it";
  EXPECT_EQ(cluster(16, 4096, "sm_90a", 114), 8) << "parts of which a group may have fewer than 16 multiprocessors";
  EXPECT_EQ(cluster(16, 7168, "sm_90a", 132), 14);
  EXPECT_EQ(cluster(14, 7168, "sm_90a", 78), 7);
  EXPECT_EQ(cluster(2, 1024, "sm_90a", 132), 4);
  EXPECT_EQ(cluster(2, 256, "sm_90a", 132), 0) << "a row is one warp's";
  EXPECT_EQ(cluster(2, 2880, "sm_90a", 132), 0) << "no slots";
  EXPECT_EQ(cluster(2, 4096, "sm_80", 132), 0);
}

TEST(RowGpuFamily, OneClusterFindsTheScaleOfAFewRowsAndWritesTheirCodes) {
  const auto cluster = [](const std::string& text, const char* target, int units) {
    return cluster_of_all(quantize_operator(), text, target, units);
  };
  const std::string nvfp4 = "m={}:n=4096:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found";
  EXPECT_EQ(cluster("m=16:n=4096:x=bf16:out=e4m3:quant=dynamic", "sm_90a", 132), 16);
  EXPECT_EQ(cluster("m=17:n=4096:x=bf16:out=e4m3:quant=dynamic", "sm_90a", 132), 0);
  EXPECT_EQ(cluster("m=11:n=4096:x=bf16:out=i8:quant=dynamic", "sm_90a", 132), 11);
  EXPECT_EQ(cluster("m=11:n=4096:x=bf16:out=i8:quant=dynamic", "sm_90a", 114), 0);
  EXPECT_EQ(cluster("m=64:n=256:x=f32:out=e4m3:quant=dynamic", "sm_90a", 114), 4) << "16 rows a block";
  EXPECT_EQ(cluster("m=2:n=40000:x=bf16:out=e4m3:quant=dynamic", "sm_90a", 132), 0) << "rows that are read again";
  EXPECT_EQ(cluster("m=16:n=4096:x=bf16:out=e4m3:quant=dynamic", "sm_80", 132), 0);
  EXPECT_EQ(cluster(fmt::format(fmt::runtime(nvfp4), 16), "sm_90a", 132), 16);
  EXPECT_EQ(cluster(fmt::format(fmt::runtime(nvfp4), 17), "sm_90a", 132), 0);
}

TEST(RowGpuFamily, StagesWaitForThoseOfTheirCallByThemselves) {
  const auto edges = [](const Operator& op, const std::string& text) {
    std::vector<bool> found;
    for (const Stage& s : stages_of(op, text)) found.push_back(s.shape.stage_edge);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(edges(rms_norm_operator(), "m=64:n=4096:x=bf16:weight=bf16"), ElementsAre(false));
  EXPECT_THAT(edges(quantize_operator(), "m=64:n=4096:x=bf16:out=e4m3:quant=dynamic"), ElementsAre(false, true, true));
  EXPECT_THAT(edges(rms_norm_backward_operator(), "m=64:n=4096:x=bf16:residual=bf16:weight=bf16:dweight=bf16"),
              ElementsAre(false, true));
  EXPECT_THAT(edges(softmax_operator(), "m=2:n=1000000:x=bf16"), ElementsAre(false, true));
}

TEST(RowGpuFamily, WithoutRowsOnlyWhatNeedsNoneIsLaunched) {
  EXPECT_TRUE(stages_of(rms_norm_operator(), "m=0:n=4096:x=bf16:weight=bf16").empty());
  for (const auto& [op, text] :
       {std::pair{&quantize_operator(), "m=0:n=4096:x=bf16:out=e4m3:quant=dynamic"},
        std::pair{&rms_norm_backward_operator(), "m=0:n=4096:x=bf16:residual=bf16:weight=bf16:dweight=bf16"}}) {
    const std::vector<Stage> stages = stages_of(*op, text);
    ASSERT_EQ(stages.size(), 1u) << text;
    EXPECT_FALSE(stages[0].shape.stage_edge) << text << ": there is no stage before";
  }
}

TEST(RowGpuFamily, KernelsWithoutALoopTakeNoMoreRowsThanAGridHasBlocks) {
  const Operator& op = rms_norm_operator();
  const auto checked = [&](const char* target, int64_t rows) {
    const std::string text = fmt::format("m={}:n=4096:x=bf16:weight=bf16", rows);
    return row_family(op).check(*op.parse_problem(text), test::cuda_device(target, 132), first(op, target, text).step);
  };
  const int64_t most = (int64_t{1} << 31) - 1;
  EXPECT_TRUE(checked("sm_90a", most).ok());
  EXPECT_THAT(checked("sm_90a", most + 1).message(), testing::HasSubstr("a grid has at most 2147483647"));
  EXPECT_TRUE(checked("gfx942", most + 1).ok()) << "its kernels go on where the grid ends";
}

TEST(RowGpuFamily, SumsOfColumnsNeedNoSlots) {
  const std::vector<Stage> stages =
      stages_of(layer_norm_backward_operator(), "m=64:n=8192:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16");
  ASSERT_EQ(stages.size(), 2);
  EXPECT_EQ(stages[0].shape.shared_bytes, row_met_bytes(512) + 4 * 2 * 8192 * 2);
  EXPECT_EQ(stages[1].shape.shared_bytes, row_met_bytes(512));
}

}  // namespace
}  // namespace tilewright
