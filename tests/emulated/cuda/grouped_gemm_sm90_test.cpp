// SPDX-License-Identifier: MIT
// grouped_gemm_sm90, the source that NVRTC compiles, on the host: right results for groups of any size through the family's
// own stages. Copies land when they are waited for, products are made then, and what nobody brought is NaN.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "grouped_gemm/sm90/grouped_gemm_sm90.cuh"

#include "core/fields.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "ops/grouped_gemm/instance/grouped_gemm_instance.hpp"

namespace tilewright {
namespace {

using emulated::HostKernel;

template <GroupedGemmSm90Config kConfig>
void check(std::initializer_list<const char*> problems, std::initializer_list<uint64_t> seeds = {1, 2, 4},
           int64_t counted = 1, int64_t raster = 2) {
  static_assert(grouped_sm90_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { grouped_gemm_sm90<kConfig>(*static_cast<const GroupedGemmSm90Args*>(args)); });
  RecipeStep step;
  step.key = make_key("grouped_gemm", "grouped_gemm_sm90", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  step.knobs.values = {raster, counted};
  for (const char* text : problems) {
    SCOPED_TRACE(text);
    const Result<GroupedGemmProblem> problem = parse_grouped_gemm_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    const KernelFamily& family = grouped_gemm_sm90_family();
    emulated::check_stages(device, family.stages(erase(*problem), device.spec(), step, kernel), 0,
                           make_grouped_gemm_instance(*problem, device, {}), seeds);
    EXPECT_TRUE(device.zeros_are_left());
  }
}

constexpr GroupedGemmSm90Config kBase{.dtype = DType::kBf16,
                                      .epilogue = EpilogueKind::kPlain,
                                      .activation = Activation::kNone,
                                      .gate = GateMode::kNone,
                                      .d_dtype = DType::kBf16,
                                      .promote = Promotion::kNone,
                                      .rows = 64,
                                      .tokens = 64,
                                      .step = 16,
                                      .warpgroups = 1,
                                      .depth = 1,
                                      .stages = 3,
                                      .cluster = 1,
                                      .tall = GroupedTall::kWeights};
constexpr GroupedGemmSm90Config tile(int rows, int tokens, int step, int warpgroups, int depth, int stages) {
  GroupedGemmSm90Config c = kBase;
  c.rows = rows, c.tokens = tokens, c.step = step, c.warpgroups = warpgroups, c.depth = depth, c.stages = stages;
  return c;
}
constexpr GroupedGemmSm90Config bytes(GroupedGemmSm90Config c, Promotion promote,
                                      EpilogueKind kind = EpilogueKind::kPlain) {
  c.dtype = DType::kF8E4M3, c.promote = promote, c.epilogue = kind;
  return c;
}
constexpr GroupedGemmSm90Config shared(GroupedGemmSm90Config c, int cluster) {
  c.cluster = cluster;
  return c;
}
// With tokens on the tall side.
constexpr GroupedGemmSm90Config tall(int rows, int tokens, int warpgroups, int stages,
                                     Promotion promote = Promotion::kScaled) {
  GroupedGemmSm90Config c = bytes(tile(rows, tokens, 64, warpgroups, 1, stages), promote);
  c.tall = GroupedTall::kTokens;
  return c;
}
constexpr GroupedGemmSm90Config gated(GroupedGemmSm90Config c, GateMode gate) {
  c.gate = gate, c.epilogue = EpilogueKind::kLinear, c.activation = Activation::kSilu;
  return c;
}

TEST(EmulatedGroupedGemmSm90, TilesOfEachWidthAreMultipliedRight) {
  check<tile(64, 64, 16, 1, 1, 3)>({"groups=5:m=133:n=72:k=136:a=bf16:status=1"});
  check<tile(128, 160, 32, 2, 2, 2)>({"groups=3:m=390:n=136:k=72:a=bf16:status=1"}, {1, 2});
  check<tile(64, 16, 16, 1, 4, 2)>({"groups=9:m=40:n=40:k=264:a=bf16:status=1"});
}

TEST(EmulatedGroupedGemmSm90, ScalesOfGroupsMultiplyTheirOwnRowsAndBlocks) {
  check<bytes(tile(64, 64, 16, 1, 1, 3), Promotion::kScaled)>(
      {"groups=4:m=150:n=200:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"});
  check<bytes(tile(128, 224, 16, 2, 1, 2), Promotion::kScaled)>(
      {"groups=3:m=420:n=136:k=144:a=e4m3:scale_a=f32.1x128.0.1.420:scale_b=f32.128x128"}, {1, 2});
  check<bytes(tile(128, 16, 16, 2, 2, 2), Promotion::kScaled)>(
      {"mode=masked:groups=6:m=20:n=136:k=400:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"});
}

TEST(EmulatedGroupedGemmSm90, MaskedGroupsKeepToTheirRows) {
  check<tile(64, 32, 16, 1, 1, 3)>({"mode=masked:groups=4:m=33:n=72:k=72:a=bf16:status=1",
                                    "mode=masked:groups=40:m=16:n=64:k=64:a=bf16:rows=8:status=1"});
}

TEST(EmulatedGroupedGemmSm90, WhereGroupsLieMayBeSaidInEachWay) {
  for (const int64_t counted : {0, 1}) {
    check<tile(64, 32, 16, 1, 1, 3)>({"groups=7:m=130:n=72:k=64:a=bf16:extents=offsets:status=1",
                                      "groups=7:m=130:n=72:k=64:a=bf16:extents=ends:status=1",
                                      "groups=7:m=130:n=72:k=64:a=bf16:extents=both:status=1",
                                      "groups=70:m=200:n=8:k=64:a=bf16:align_rows=16:status=1"},
                                     {1, 4}, counted, 1);
  }
}

TEST(EmulatedGroupedGemmSm90, ScalesBiasActivationsAndGatesAreTheGroupsOwn) {
  check<bytes(tile(128, 64, 16, 2, 1, 2), Promotion::kSums, EpilogueKind::kLinear)>(
      {"groups=4:m=100:n=136:k=272:a=e4m3:scale_a=f32:scale_b=f32:bias=f32"});
  check<gated(tile(128, 32, 16, 1, 1, 2), GateMode::kSeparated)>(
      {"groups=3:m=70:n=160:k=72:a=bf16:gate=separated:act=silu:bias=bf16"});
  check<gated(tile(64, 32, 16, 1, 1, 2), GateMode::kInterleaved)>(
      {"groups=3:m=70:n=160:k=72:a=bf16:gate=interleaved:act=silu:bias=bf16"});
  check<gated(bytes(tile(256, 32, 16, 2, 1, 2), Promotion::kScaled), GateMode::kSeparated)>(
      {"groups=3:m=70:n=512:k=144:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:gate=separated:act=silu"}, {1});
}

// Tiles of the weights are odd in number in each: a block has nothing to write. Blocks of a cluster run by turns.
TEST(EmulatedGroupedGemmSm90, BlocksOfAClusterBringTheirTokensForAll) {
  for (const int64_t counted : {0, 1}) {
    check<shared(tile(64, 64, 16, 1, 1, 3), 2)>({"groups=5:m=133:n=136:k=264:a=bf16:status=1"}, {1, 2, 4}, counted);
    check<shared(tile(64, 32, 16, 1, 2, 2), 4)>({"groups=7:m=130:n=328:k=264:a=bf16:status=1"}, {1, 4}, counted, 1);
  }
  check<shared(tile(128, 160, 32, 2, 2, 2), 2)>({"groups=3:m=390:n=136:k=264:a=bf16:status=1"}, {1});
  check<shared(tile(64, 16, 16, 1, 1, 3), 2)>({"mode=masked:groups=4:m=33:n=72:k=264:a=bf16:status=1"});
}

TEST(EmulatedGroupedGemmSm90, BlocksOfAClusterHaveScalesAndColumnsOfTheirOwn) {
  check<shared(bytes(tile(128, 224, 16, 2, 1, 2), Promotion::kScaled), 2)>(
      {"groups=3:m=420:n=328:k=400:a=e4m3:scale_a=f32.1x128.0.1.420:scale_b=f32.128x128"}, {1, 2});
  check<shared(bytes(tile(128, 64, 16, 2, 1, 2), Promotion::kSums, EpilogueKind::kLinear), 2)>(
      {"groups=4:m=100:n=136:k=272:a=e4m3:scale_a=f32:scale_b=f32:bias=f32"});
  check<shared(gated(tile(128, 32, 16, 1, 1, 2), GateMode::kSeparated), 2)>(
      {"groups=3:m=70:n=288:k=136:a=bf16:gate=separated:act=silu:bias=bf16"});
  check<shared(gated(bytes(tile(256, 32, 16, 2, 1, 2), Promotion::kScaled), GateMode::kSeparated), 2)>(
      {"groups=3:m=70:n=768:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:gate=separated:act=silu"}, {1});
  check<shared(gated(tile(64, 32, 16, 1, 1, 2), GateMode::kInterleaved), 2)>(
      {"groups=3:m=70:n=160:k=72:a=bf16:gate=interleaved:act=silu:bias=bf16"});
}

// Tiles of one to all of their 64 rows: a warpgroup has none, or fewer than the other. One step of K, and more than there are
// stages; D of one tile is written beside the next one's products.
TEST(EmulatedGroupedGemmSm90, TokensStandOnTheTallSide) {
  check<tall(128, 256, 2, 2)>(
      {"groups=3:m=420:n=136:k=400:a=e4m3:scale_a=f32.1x128.0.1.420:scale_b=f32.128x128:status=1",
       "groups=4:m=700:n=264:k=128:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"},
      {1, 2});
  check<tall(256, 128, 2, 2)>({"groups=5:m=300:n=328:k=528:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"});
  check<tall(128, 128, 1, 3)>({"groups=5:m=300:n=136:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"},
                              {1, 4}, 0);
}

TEST(EmulatedGroupedGemmSm90, TokensOnTheTallSideKeepToTheirGroup) {
  check<tall(128, 256, 2, 3)>(
      {"mode=masked:groups=4:m=200:n=136:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"});
  check<tall(128, 128, 2, 2, Promotion::kSums)>({"groups=4:m=200:n=136:k=272:a=e4m3:extents=both:status=1"});
}

TEST(EmulatedGroupedGemmSm90, TokensOnTheTallSideAreBroughtForAll) {
  for (const int64_t counted : {0, 1}) {
    check<shared(tall(128, 256, 2, 2), 2)>(
        {"groups=3:m=420:n=328:k=400:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"}, {1, 4}, counted);
  }
  check<shared(tall(128, 128, 2, 2), 4)>(
      {"groups=3:m=300:n=520:k=400:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1"}, {1});
}

TEST(EmulatedGroupedGemmSm90, ColumnsOfDThatAreNoWholePiecesAreWritten) {
  check<tile(64, 64, 16, 1, 1, 2)>({"groups=3:m=100:n=37:k=64:a=bf16"});
}

}  // namespace
}  // namespace tilewright
