// SPDX-License-Identifier: MIT
// grouped_sm90_dequant, the source that NVRTC compiles, on the host: right results for groups of any size, in one entry and in
// several, through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "grouped_gemm/sm90/dequant/grouped_sm90_dequant.cuh"

#include "core/fields.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "ops/grouped_gemm/instance/grouped_gemm_instance.hpp"

namespace tilewright {
namespace {

template <GemmSm90DequantConfig kConfig>
void check_groups(std::initializer_list<const char*> problems, std::initializer_list<uint64_t> seeds = {1, 2, 4}) {
  static_assert(grouped_sm90_dequant_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { grouped_sm90_dequant<kConfig>(*static_cast<const GroupedSm90DequantArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("grouped_gemm", "grouped_sm90_dequant", "sm_90a",
                      fmt::format("dtype={}", dtype_name(kConfig.dtype)), print_fields(kConfig));
  for (const char* text : problems) {
    SCOPED_TRACE(text);
    const Result<GroupedGemmProblem> problem = parse_grouped_gemm_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    const KernelFamily& family = grouped_sm90_dequant_family();
    emulated::check_stages(device, family.stages(erase(*problem), device.spec(), step, kernel),
                           family.workspace_bytes(erase(*problem), device.spec(), step),
                           make_grouped_gemm_instance(*problem, device, {}), seeds);
    EXPECT_TRUE(device.zeros_are_left());
  }
}

constexpr GemmSm90DequantConfig mxfp4(int rows, int tokens, int warpgroups, int stages, int scale_row = 0) {
  return {.dtype = DType::kBf16,
          .weight = DType::kF4E2M1,
          .scale = DType::kE8M0,
          .group = 32,
          .zero = DType::kNone,
          .epilogue = EpilogueKind::kPlain,
          .activation = Activation::kNone,
          .gate = GateMode::kNone,
          .d_dtype = DType::kBf16,
          .rows = rows,
          .tokens = tokens,
          .warpgroups = warpgroups,
          .stages = stages,
          .blocks = 1,
          .splits = 1,
          .cluster = 1,
          .packed = false,
          .scale_row = scale_row};
}
constexpr GemmSm90DequantConfig weights_of(GemmSm90DequantConfig c, DType weight, DType scale, int group,
                                           DType zero = DType::kNone) {
  c.weight = weight, c.scale = scale, c.group = group, c.zero = zero;
  return c;
}
constexpr GemmSm90DequantConfig packed(GemmSm90DequantConfig c) {
  c.packed = true;
  return c;
}
constexpr GemmSm90DequantConfig linear(GemmSm90DequantConfig c, GateMode gate = GateMode::kNone) {
  c.epilogue = EpilogueKind::kLinear, c.gate = gate;
  if (gate != GateMode::kNone) c.activation = Activation::kSilu;
  return c;
}

TEST(EmulatedGroupedSm90Dequant, GroupsOfOneEntryAndOfSeveralAreMultipliedRight) {
  check_groups<mxfp4(64, 8, 1, 3)>({"groups=5:m=23:n=72:k=416:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1",
                                    "groups=70:m=40:n=40:k=160:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1"});
  check_groups<mxfp4(128, 32, 2, 3, 48)>({"groups=4:m=133:n=200:k=1440:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1"},
                                         {1, 2});
  check_groups<mxfp4(192, 16, 3, 3, 32)>({"groups=3:m=70:n=200:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x32"}, {1, 2});
}

TEST(EmulatedGroupedSm90Dequant, MaskedGroupsKeepToTheirRows) {
  check_groups<mxfp4(64, 16, 1, 3)>(
      {"mode=masked:groups=4:m=33:n=72:k=288:a=bf16:b=e2m1:scale_b=e8m0.1x32:status=1",
       "mode=masked:groups=40:m=16:n=64:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32:rows=8:status=1"});
}

TEST(EmulatedGroupedSm90Dequant, WhereGroupsLieMayBeSaidInEachWay) {
  check_groups<mxfp4(64, 32, 1, 3)>(
      {"groups=7:m=130:n=72:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32:extents=offsets:status=1",
       "groups=7:m=130:n=72:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32:extents=ends:status=1",
       "groups=7:m=130:n=72:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32:extents=both:status=1",
       "groups=70:m=200:n=8:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32:align_rows=16:status=1"},
      {1, 4});
}

TEST(EmulatedGroupedSm90Dequant, OtherWeightsHaveTheirScalesAndZeroPoints) {
  check_groups<weights_of(mxfp4(64, 16, 1, 3), DType::kI4, DType::kF16, 128)>(
      {"groups=4:m=50:n=72:k=512:a=bf16:b=i4:scale_b=f16.1x128"});
  check_groups<weights_of(mxfp4(64, 32, 1, 2), DType::kU4, DType::kF16, 64, DType::kU4)>(
      {"groups=3:m=50:n=72:k=512:a=bf16:b=u4:scale_b=f16.1x64:zero_b=u4"});
  check_groups<weights_of(linear(mxfp4(64, 64, 1, 2)), DType::kF8E4M3, DType::kNone, 0)>(
      {"groups=3:m=90:n=72:k=272:a=bf16:b=e4m3:scale_a=f32:scale_b=f32:bias=f32"});
}

TEST(EmulatedGroupedSm90Dequant, PackedWeightsOfEveryGroupServe) {
  check_groups<packed(mxfp4(64, 8, 1, 3))>(
      {"groups=5:m=23:n=72:k=416:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:status=1"});
  check_groups<packed(mxfp4(128, 32, 2, 3, 48))>(
      {"groups=4:m=133:n=200:k=1440:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:status=1"}, {1, 2});
  check_groups<packed(linear(mxfp4(128, 16, 1, 3), GateMode::kSeparated))>(
      {"mode=masked:groups=3:m=40:n=256:k=288:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated:act=silu:"
       "bias=bf16"});
}

// A comes as it lies: a box of it may reach into the rows of the next group, and behind the last one.
TEST(EmulatedGroupedSm90Dequant, PackedIntegersTakeRowsOfGroupsAsTheyLie) {
  check_groups<packed(weights_of(mxfp4(64, 8, 1, 3), DType::kI4, DType::kF16, 128))>(
      {"groups=5:m=23:n=72:k=576:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:status=1",
       "mode=masked:groups=4:m=11:n=72:k=512:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:status=1"});
  check_groups<packed(weights_of(mxfp4(128, 16, 1, 3), DType::kI4, DType::kBf16, 64))>(
      {"groups=40:m=90:n=200:k=448:a=bf16:b=i4:packed=fragments:scale_b=bf16.1x64:extents=both:status=1"});
  check_groups<packed(weights_of(mxfp4(128, 32, 2, 2), DType::kU4, DType::kF16, 64, DType::kU4))>(
      {"groups=3:m=70:n=200:k=512:a=bf16:b=u4:packed=fragments:scale_b=f16.1x64:zero_b=u4",
       "mode=masked:groups=3:m=45:n=72:k=512:a=bf16:b=u4:packed=fragments:scale_b=f16.1x64:zero_b=u4:status=1"},
      {1, 2});
}

TEST(EmulatedGroupedSm90Dequant, GatesAndBiasAreTheGroupsOwn) {
  check_groups<linear(mxfp4(128, 16, 1, 3), GateMode::kSeparated)>(
      {"groups=3:m=40:n=160:k=288:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu:bias=bf16"});
  check_groups<linear(mxfp4(64, 16, 1, 3), GateMode::kInterleaved)>(
      {"groups=3:m=40:n=160:k=288:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=interleaved:act=silu:bias=bf16"});
  constexpr GemmSm90DequantConfig kLate = linear(mxfp4(64, 32, 1, 3), GateMode::kInterleaved);
  static_assert(gemm_sm90_dequant_late_columns(kLate));
  check_groups<kLate>(
      {"groups=3:m=90:n=160:k=288:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=interleaved:act=silu:bias=bf16"});
}

}  // namespace
}  // namespace tilewright
