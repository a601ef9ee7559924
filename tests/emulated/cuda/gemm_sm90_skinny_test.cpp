// SPDX-License-Identifier: MIT
// gemm_sm90_skinny, the source that NVRTC compiles, on the host: right results where a block makes whole tiles or the parts of a
// tile meet in their cluster, through the family's own stages. Clusters run one after another here: those that wait for each other's
// sums cannot.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/sm90/skinny/gemm_sm90_skinny.cuh"

#include "core/fields.hpp"

namespace tilewright {
namespace {

template <GemmSm90SkinnyConfig kConfig>
void check(std::initializer_list<const char*> problems) {
  static_assert(gemm_sm90_skinny_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { gemm_sm90_skinny<kConfig>(*static_cast<const GemmSm90SkinnyArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemm_sm90_skinny", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemm_sm90_skinny_family(), step, kernel);
  }
}

constexpr GemmSm90SkinnyConfig config(DType dtype, int rows, int tokens, int warpgroups, int depth, int stages,
                                      Promotion promote = Promotion::kNone, GateMode gate = GateMode::kNone,
                                      int cluster = 1, int splits = 1) {
  const bool gated = gate != GateMode::kNone;
  return {.dtype = dtype,
          .epilogue = gated ? EpilogueKind::kLinear : EpilogueKind::kPlain,
          .activation = gated ? Activation::kSilu : Activation::kNone,
          .gate = gate,
          .d_dtype = DType::kBf16,
          .promote = promote,
          .rows = rows,
          .tokens = tokens,
          .warpgroups = warpgroups,
          .depth = depth,
          .stages = stages,
          .cluster = cluster,
          .blocks = 1,
          .splits = splits};
}

TEST(EmulatedGemmSm90Skinny, TilesAndTailsAreMultipliedRight) {
  check<config(DType::kBf16, 64, 16, 1, 2, 3)>({"m=13:n=200:k=328:a=bf16", "m=1:n=8:k=8:a=bf16"});
  check<config(DType::kBf16, 128, 64, 2, 1, 2)>({"m=40:n=200:k=136:a=bf16:batch=2"});
}

TEST(EmulatedGemmSm90Skinny, BlocksOfAClusterBringTheirTokensForAll) {
  check<config(DType::kBf16, 64, 32, 1, 2, 3, Promotion::kNone, GateMode::kNone, 2)>(
      {"m=30:n=328:k=904:a=bf16:batch=2", "m=17:n=72:k=72:a=bf16"});
}

constexpr GemmSm90SkinnyConfig meeting(GemmSm90SkinnyConfig c, int splits) {
  c.cluster = c.splits = splits;
  return c;
}

TEST(EmulatedGemmSm90Skinny, PartsOfATileAddTheirSumsInACluster) {
  check<meeting(config(DType::kBf16, 64, 16, 1, 2, 3), 2)>(
      {"m=13:n=200:k=904:a=bf16:batch=2", "m=5:n=72:k=136:a=bf16"});
  // Parts without tokens of their own, and those whose tokens are past M.
  check<meeting(config(DType::kBf16, 64, 8, 1, 1, 2), 4)>({"m=5:n=72:k=328:a=bf16"});
  check<meeting(config(DType::kBf16, 64, 64, 1, 1, 3), 4)>({"m=33:n=136:k=648:a=bf16", "m=64:n=64:k=264:a=bf16"});
  check<meeting(config(DType::kBf16, 128, 64, 2, 1, 2), 8)>({"m=64:n=200:k=584:a=bf16"});
  // Three and six, which share the tokens among two and four of them, or one each.
  check<meeting(config(DType::kBf16, 64, 16, 1, 1, 2), 3)>({"m=9:n=136:k=584:a=bf16"});
  check<meeting(config(DType::kBf16, 64, 64, 1, 1, 3), 3)>({"m=33:n=72:k=648:a=bf16", "m=64:n=64:k=264:a=bf16"});
  check<meeting(config(DType::kBf16, 64, 128, 1, 1, 2), 6)>({"m=101:n=72:k=648:a=bf16"});
}

TEST(EmulatedGemmSm90Skinny, PartsOfGatesAndOfScaledSumsMeetToo) {
  check<meeting(config(DType::kBf16, 128, 16, 1, 1, 2, Promotion::kNone, GateMode::kSeparated), 2)>(
      {"m=9:n=200:k=264:a=bf16:gate=separated:act=silu"});
  check<meeting(config(DType::kF8E4M3, 64, 32, 1, 1, 2, Promotion::kScaled), 2)>(
      {"m=30:n=264:k=656:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
  check<meeting(config(DType::kI8, 64, 32, 1, 1, 2), 4)>({"m=25:n=136:k=656:a=i8:d=bf16"});
}

TEST(EmulatedGemmSm90Skinny, ScalesOfGroupsMultiplyTheirOwnRowsAndBlocks) {
  check<config(DType::kF8E4M3, 64, 32, 1, 2, 2, Promotion::kScaled)>(
      {"m=30:n=264:k=400:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
}

TEST(EmulatedGemmSm90Skinny, HalvesOfAGateMeet) {
  check<config(DType::kBf16, 128, 16, 1, 2, 2, Promotion::kNone, GateMode::kSeparated)>(
      {"m=9:n=200:k=136:a=bf16:gate=separated:act=silu"});
}

}  // namespace
}  // namespace tilewright
