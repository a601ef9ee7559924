// SPDX-License-Identifier: MIT
// gemm_sm90, the source that NVRTC compiles, on the host: types, tiles, promoted sums, scales of groups whose blocks tiles
// straddle, clusters, and epilogues, through the family's own stages. Operands lie along K, and no cluster waits for another.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/sm90/gemm_sm90.cuh"

#include "core/fields.hpp"

namespace tilewright {
namespace {

template <GemmSm90Config kConfig>
void check(std::initializer_list<const char*> problems) {
  static_assert(gemm_sm90_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { gemm_sm90<kConfig>(*static_cast<const GemmSm90Args*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemm_sm90", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  step.knobs.values = {2, 1};  // two rows of tiles at a time, no tile in parts
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemm_sm90_family(), step, kernel);
  }
}

constexpr GemmSm90Config tile(DType dtype, DType d, int m, int n, int warpgroups, bool words = true) {
  return {.dtype = dtype,
          .a_major = Major::kK,
          .b_major = Major::kK,
          .epilogue = EpilogueKind::kPlain,
          .activation = Activation::kNone,
          .gate = GateMode::kNone,
          .d_dtype = d,
          .d_words = words,
          .promote = Promotion::kNone,
          .tile_m = m,
          .tile_n = n,
          .warpgroups = warpgroups,
          .stages = 3,
          .cluster_m = 1,
          .cluster_n = 1};
}
constexpr GemmSm90Config promoted(GemmSm90Config c, Promotion promote) {
  c.promote = promote;
  return c;
}
constexpr GemmSm90Config linear(GemmSm90Config c, GateMode gate, Activation activation) {
  c.epilogue = EpilogueKind::kLinear, c.gate = gate, c.activation = activation;
  return c;
}
constexpr GemmSm90Config shared(GemmSm90Config c, int cluster_m, int cluster_n) {
  c.cluster_m = cluster_m, c.cluster_n = cluster_n;
  return c;
}
constexpr DType kBf = DType::kBf16, kE4 = DType::kF8E4M3;

TEST(EmulatedGemmSm90, TilesAndTailsAreMultipliedRight) {
  check<tile(kBf, kBf, 128, 256, 2)>({"m=300:n=264:k=200:a=bf16", "m=1:n=8:k=8:a=bf16"});
  check<tile(DType::kF16, DType::kF16, 64, 64, 1)>({"m=130:n=136:k=72:a=f16:batch=2"});
  check<tile(kBf, kBf, 256, 112, 2)>({"m=260:n=232:k=136:a=bf16"});
  check<tile(DType::kI8, DType::kF32, 128, 128, 2, false)>({"m=130:n=131:k=272:a=i8:d=f32"});
}

TEST(EmulatedGemmSm90, BlocksOfAClusterBringTilesForEachOther) {
  check<shared(tile(kBf, kBf, 128, 128, 2), 2, 1)>({"m=300:n=264:k=392:a=bf16"});
  check<shared(tile(kBf, kBf, 64, 64, 1), 1, 2)>({"m=130:n=200:k=392:a=bf16:batch=2"});
}

TEST(EmulatedGemmSm90, PromotedSumsAreAddedTileByTile) {
  check<promoted(tile(kE4, kBf, 128, 128, 2), Promotion::kSums)>({"m=140:n=136:k=400:a=e4m3"});
  check<promoted(tile(kE4, kBf, 128, 256, 2), Promotion::kSums)>({"m=130:n=264:k=400:a=e4m3"});
}

TEST(EmulatedGemmSm90, ScalesOfGroupsMultiplyTheirOwnRowsAndBlocks) {
  check<promoted(tile(kE4, kBf, 128, 128, 2), Promotion::kScaled)>(
      {"m=140:n=264:k=400:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
       "m=132:n=264:k=400:a=e4m3:scale_a=f32.1x128.0.1.132:scale_b=f32.128x128:batch=2"});
  check<promoted(tile(kE4, kBf, 128, 256, 2), Promotion::kScaled)>(
      {"m=140:n=520:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
       "m=1:n=8:k=16:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
  check<promoted(tile(kE4, kBf, 64, 128, 1), Promotion::kScaled)>(
      {"m=70:n=264:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
}

TEST(EmulatedGemmSm90, ScalesThatLieAlongMComeAsOneCopyAndWords) {
  // Whole columns, columns that end inside of four words, one that begins behind the tile's last row, one row.
  check<promoted(tile(kE4, kBf, 256, 128, 2), Promotion::kScaled)>(
      {"m=512:n=136:k=400:a=e4m3:scale_a=f32.1x128.0.1.512:scale_b=f32.128x128",
       "m=259:n=136:k=400:a=e4m3:scale_a=f32.1x128.0.1.260:scale_b=f32.128x128",
       "m=1:n=136:k=144:a=e4m3:scale_a=f32.1x128.0.1.4:scale_b=f32.128x128"});
  check<shared(promoted(tile(kE4, kBf, 256, 128, 2), Promotion::kScaled), 2, 1)>(
      {"m=262:n=264:k=272:a=e4m3:scale_a=f32.1x128.0.1.264:scale_b=f32.128x128:batch=2"});
}

// D leaves by pieces: one or two of a tile, boxes of 64 columns and a narrower last one, beside the first and the last products.
TEST(EmulatedGemmSm90, PiecesOfDAreWrittenOnceAndWhole) {
  check<promoted(tile(kE4, kBf, 256, 128, 2), Promotion::kSums)>(
      {"m=600:n=264:k=400:a=e4m3", "m=600:n=264:k=128:a=e4m3"});
  check<promoted(tile(kE4, DType::kF16, 128, 224, 2), Promotion::kSums)>({"m=260:n=680:k=400:a=e4m3:d=f16"});
  check<promoted(tile(kE4, kBf, 128, 176, 2), Promotion::kSums)>({"m=130:n=712:k=272:a=e4m3:batch=2"});
  check<promoted(tile(kE4, kBf, 64, 64, 1), Promotion::kSums)>({"m=130:n=136:k=272:a=e4m3"});
  check<promoted(tile(kE4, DType::kF32, 128, 256, 2, false), Promotion::kSums)>({"m=130:n=264:k=272:a=e4m3:d=f32"});
  check<linear(promoted(tile(kE4, kBf, 128, 256, 2), Promotion::kSums), GateMode::kNone, Activation::kGelu)>(
      {"m=130:n=520:k=272:a=e4m3:bias=f32:act=gelu"});
  check<linear(promoted(tile(kE4, kBf, 128, 256, 2), Promotion::kSums), GateMode::kSeparated, Activation::kSilu)>(
      {"m=130:n=528:k=272:a=e4m3:act=silu:gate=separated"});
  check<linear(promoted(tile(kE4, kBf, 256, 128, 2), Promotion::kSums), GateMode::kSeparated, Activation::kSilu)>(
      {"m=300:n=528:k=272:a=e4m3:act=silu:gate=separated"});
}

TEST(EmulatedGemmSm90, TilesThatStraddleBlocksOfScalesTakeEachColumnsOwn) {
  check<promoted(tile(kE4, kBf, 128, 144, 2), Promotion::kScaled)>(
      {"m=140:n=584:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
  check<promoted(tile(kE4, kBf, 128, 160, 2), Promotion::kScaled)>(
      {"m=140:n=648:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
  check<promoted(tile(kE4, kBf, 128, 176, 2), Promotion::kScaled)>(
      {"m=140:n=712:k=272:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"});
  check<promoted(tile(kE4, kBf, 128, 192, 2), Promotion::kScaled)>(
      {"m=140:n=776:k=272:a=e4m3:scale_a=f32.1x128.0.1.140:scale_b=f32.128x128"});
}

TEST(EmulatedGemmSm90, ScalesBiasActivationsAndGatesFollow) {
  check<linear(tile(kBf, kBf, 128, 128, 2), GateMode::kNone, Activation::kGelu)>(
      {"m=130:n=136:k=72:a=bf16:bias=bf16:act=gelu"});
  check<linear(tile(kBf, kBf, 128, 256, 2), GateMode::kSeparated, Activation::kSilu)>(
      {"m=130:n=272:k=72:a=bf16:gate=separated:act=silu"});
  check<linear(tile(kBf, kBf, 128, 128, 2, false), GateMode::kInterleaved, Activation::kSilu)>(
      {"m=130:n=136:k=72:a=bf16:gate=interleaved:act=silu"});
}

}  // namespace
}  // namespace tilewright
