// SPDX-License-Identifier: MIT
// gemm_sm90_dequant, the source that NVRTC compiles, on the host: every weight, each way in which scales and zero points
// are taken, tiles of one and two parts and of several warpgroups, blocks that share a tile, through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/sm90/dequant/gemm_sm90_dequant.cuh"

#include <array>
#include <cmath>

#include "core/fields.hpp"
#include "emulated/cuda/dequant_configs.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {
namespace {

using namespace emulated::dequant;

template <GemmSm90DequantConfig kConfig>
void check(std::initializer_list<const char*> problems) {
  static_assert(gemm_sm90_dequant_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { gemm_sm90_dequant<kConfig>(*static_cast<const GemmSm90DequantArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemm_sm90_dequant", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemm_sm90_dequant_family(), step, kernel);
    EXPECT_TRUE(device.zeros_are_left()) << text;
  }
}

TEST(EmulatedGemmSm90Dequant, EachWeightIsWidenedRight) {
  check<tile(kBf, kI4, 64, 16, 1)>({"m=13:n=72:k=544:a=bf16:b=i4"});
  check<tile(kHalf, kU4, 64, 16, 1)>({"m=13:n=72:k=544:a=f16:b=u4"});
  check<tile(kBf, kI8, 64, 16, 1)>({"m=13:n=72:k=272:a=bf16:b=i8"});
  check<tile(kHalf, kI8, 64, 16, 1)>({"m=16:n=64:k=272:a=f16:b=i8"});
  check<tile(kBf, kE4, 64, 16, 1)>({"m=13:n=72:k=272:a=bf16:b=e4m3"});
  check<tile(kHalf, kE5, 64, 16, 1)>({"m=13:n=72:k=272:a=f16:b=e5m2"});
}

TEST(EmulatedGemmSm90Dequant, PowersOfTwoGoAlongWithTheWeights) {
  check<scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32)>({"m=13:n=72:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x32"});
  check<scaled(tile(kBf, kE2, 128, 64, 1), kE8, 128)>({"m=60:n=136:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x128"});
}

TEST(EmulatedGemmSm90Dequant, ALastStepHasAllOfItsKOrTheFirstHalf) {
  // 64, 96, 128, 160, 224 and all of 256 in a tile's last step, which is also its only one.
  constexpr GemmSm90DequantConfig kStepwise = scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32);
  const auto problems = {
      "m=9:n=136:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32",   "m=9:n=136:k=864:a=bf16:b=e2m1:scale_b=e8m0.1x32",
      "m=9:n=136:k=640:a=bf16:b=e2m1:scale_b=e8m0.1x32",  "m=9:n=136:k=160:a=bf16:b=e2m1:scale_b=e8m0.1x32",
      "m=9:n=136:k=1248:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=9:n=136:k=768:a=bf16:b=e2m1:scale_b=e8m0.1x32"};
  check<kStepwise>(problems);
  check<whole(kStepwise, 48)>(problems);
  check<split(whole(kStepwise, 48), 2)>(
      {"m=9:n=136:k=864:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=9:n=136:k=320:a=bf16:b=e2m1:scale_b=e8m0.1x32"});
}

TEST(EmulatedGemmSm90Dequant, GroupsAreSummedApart) {
  check<scaled(tile(kBf, kI4, 64, 16, 1), DType::kBf16, 128)>({"m=13:n=72:k=800:a=bf16:b=i4:scale_b=bf16.1x128"});
  check<scaled(tile(kBf, kU4, 64, 32, 1), DType::kF16, 64)>({"m=30:n=72:k=544:a=bf16:b=u4:scale_b=f16.1x64"});
  check<scaled(tile(kHalf, kE2, 64, 16, 1), kE8, 32)>({"m=13:n=72:k=544:a=f16:b=e2m1:scale_b=e8m0.1x32"});
  check<scaled(tile(kBf, kI8, 64, 16, 1), DType::kF32, 128)>({"m=13:n=72:k=272:a=bf16:b=i8:scale_b=f32.1x128"});
  check<scaled(tile(kHalf, kE4, 64, 16, 1), DType::kF32, 32)>({"m=13:n=72:k=272:a=f16:b=e4m3:scale_b=f32.1x32"});
  check<scaled(tile(kBf, kE5, 64, 16, 1), DType::kF32, 64)>({"m=13:n=72:k=272:a=bf16:b=e5m2:scale_b=f32.1x64"});
}

TEST(EmulatedGemmSm90Dequant, ZeroPointsOfEachOrderAreTakenOff) {
  check<scaled(tile(kBf, kU4, 64, 16, 1), DType::kF16, 128, kU4)>(
      {"m=13:n=72:k=800:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4",
       "m=13:n=72:k=800:a=bf16:b=u4:scale_b=f16.1x128.0.1.72:zero_b=u4.0.1.72"});
  check<scaled(tile(kHalf, kI4, 64, 16, 1), DType::kF32, 32, kI4)>(
      {"m=13:n=72:k=544:a=f16:b=i4:scale_b=f32.1x32:zero_b=i4"});
  check<scaled(tile(kBf, kI8, 64, 16, 1), DType::kF16, 64, kI8)>(
      {"m=13:n=72:k=272:a=bf16:b=i8:scale_b=f16.1x64:zero_b=i8"});
  // Of either sign.
  check<scaled(tile(kBf, kU4, 64, 16, 1), DType::kF16, 128, kI4)>(
      {"m=13:n=72:k=800:a=bf16:b=u4:scale_b=f16.1x128:zero_b=i4"});
  check<scaled(tile(kHalf, kU4, 64, 16, 1), DType::kF16, 128, kI4)>(
      {"m=13:n=72:k=800:a=f16:b=u4:scale_b=f16.1x128:zero_b=i4"});
  check<scaled(tile(kBf, kI4, 64, 16, 1), DType::kF16, 128, kU4)>(
      {"m=13:n=72:k=800:a=bf16:b=i4:scale_b=f16.1x128:zero_b=u4"});
}

TEST(EmulatedGemmSm90Dequant, ManyRowsAndALongKGoRoundTheStagesManyTimes) {
  check<scaled(tile(kBf, kI4, 128, 64, 2), DType::kF16, 128)>({"m=61:n=136:k=8192:a=bf16:b=i4:scale_b=f16.1x128"});
}

TEST(EmulatedGemmSm90Dequant, BlocksThatShareATileAddTheirSums) {
  check<split(scaled(tile(kBf, kI4, 64, 16, 1), DType::kF16, 128), 2)>(
      {"m=13:n=72:k=1312:a=bf16:b=i4:scale_b=f16.1x128"});
  check<split(scaled(tile(kBf, kI4, 128, 16, 2), DType::kF16, 128), 0)>(
      {"m=13:n=136:k=1312:a=bf16:b=i4:scale_b=f16.1x128", "m=16:n=640:k=2080:a=bf16:b=i4:scale_b=f16.1x128"});
  check<split(tile(kBf, kE4, 64, 64, 1), 4)>({"m=40:n=64:k=1040:a=bf16:b=e4m3"});
}

TEST(EmulatedGemmSm90Dequant, ScalesInAnyOrderAreFound) {
  // Columns side by side; rows apart by what no load of several takes; batches of one and of several A.
  check<scaled(tile(kBf, kI4, 64, 16, 1), DType::kF16, 128)>({"m=13:n=72:k=2080:a=bf16:b=i4:scale_b=f16.1x128.0.1.72",
                                                              "m=13:n=72:k=2080:a=bf16:b=i4:scale_b=f16.1x128.0.17.1",
                                                              "m=5:n=72:k=1056:a=bf16:b=i4:scale_b=f16.1x128:batch=3"});
  check<scaled(tile(kBf, kU4, 64, 16, 1), DType::kF32, 64, kU4)>(
      {"m=13:n=72:k=2080:a=bf16:b=u4:scale_b=f32.1x64:zero_b=u4",
       "m=13:n=72:k=2048:a=bf16:b=u4:scale_b=f32.1x64.0.32.1:zero_b=u4.0.32.1"});
  check<scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32)>({"m=13:n=72:k=1600:a=bf16:b=e2m1:scale_b=e8m0.1x32.0.1.72",
                                                     "m=3:n=72:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=2"});
}

TEST(EmulatedGemmSm90Dequant, ColumnsOfABlockShareTheirScale) {
  // Blocks that end inside a tile, a gate whose halves begin inside a block, zero points.
  check<scaled(tile(kBf, kE4, 64, 16, 1), DType::kF32, 128)>(
      {"m=13:n=200:k=272:a=bf16:b=e4m3:scale_b=f32.128x128",
       "m=13:n=300:k=400:a=bf16:b=e4m3:scale_b=f32.128x128.0.1.3:batch=2"});
  check<linear(scaled(tile(kBf, kE4, 128, 16, 1), DType::kF32, 128), GateMode::kSeparated, Activation::kSilu, kBf)>(
      {"m=13:n=400:k=272:a=bf16:b=e4m3:scale_b=f32.128x128:gate=separated:act=silu"});
  check<scaled(tile(kBf, kU4, 64, 16, 1), DType::kF16, 64, kU4)>(
      {"m=13:n=200:k=544:a=bf16:b=u4:scale_b=f16.128x64:zero_b=u4"});
  check<scaled(tile(kBf, kE2, 64, 16, 1), kE8, 128)>({"m=13:n=200:k=544:a=bf16:b=e2m1:scale_b=e8m0.128x128"});
}

TEST(EmulatedGemmSm90Dequant, ScalesOfATileThatComeWholeAreEachRowsOwn) {
  // Rows of 25 bytes, which begin anywhere in sixteen; many short tiles a block, for which two slots take turns; batches apart.
  check<whole(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32), 32)>(
      {"m=13:n=72:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=3:n=88:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=3",
       "m=13:n=72:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x32.0.31.1",
       "m=5:n=840:k=96:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=2"});
  check<whole(scaled(tile(kBf, kE2, 64, 8, 1), kE8, 32), 96)>({"m=8:n=64:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32"});
  check<whole(scaled(tile(kBf, kE2, 192, 64, 3), kE8, 64), 16)>({"m=61:n=200:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x64"});
  check<whole(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 128), 16)>({"m=13:n=200:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x128"});
  check<split(whole(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32), 48), 2)>(
      {"m=13:n=72:k=1312:a=bf16:b=e2m1:scale_b=e8m0.1x32"});
  check<split(whole(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32), 48), 0)>(
      {"m=13:n=200:k=1312:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=2"});
  check<whole(linear(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32), GateMode::kSeparated, Activation::kSilu, kBf), 32)>(
      {"m=13:n=146:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu"});
}

TEST(EmulatedGemmSm90Dequant, PackedWeightsAreReadAsTheyWerePacked) {
  // N and K that end inside sixteen columns and inside a fragment; one fragment and two of a last step; batches of one and of several B.
  check<packed(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32))>(
      {"m=13:n=72:k=800:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32",
       "m=1:n=5:k=40:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32",
       "m=3:n=88:k=448:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:batch=3"});
  check<packed(whole(scaled(tile(kBf, kE2, 192, 64, 3), kE8, 32), 48))>(
      {"m=61:n=200:k=1440:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32",
       "m=61:n=392:k=1408:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:batch=2"});
  check<split(packed(whole(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32), 48)), 2)>(
      {"m=13:n=136:k=1312:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32"});
  check<split(packed(whole(scaled(tile(kBf, kE2, 64, 8, 1), kE8, 64), 32)), 0)>(
      {"m=7:n=200:k=1312:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x64:batch=2"});
  check<packed(linear(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32), GateMode::kSeparated, Activation::kSilu, kBf))>(
      {"m=13:n=384:k=544:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated:act=silu"});
  check<packed(linear(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32), GateMode::kInterleaved, Activation::kSilu, kBf))>(
      {"m=13:n=72:k=544:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=interleaved:act=silu"});
}

TEST(EmulatedGemmSm90Dequant, PartsOfPackedIntegersMeetInACluster) {
  check<meeting(packed(scaled(tile(kBf, kI4, 64, 16, 1), kHalf, 128)), 2)>(
      {"m=13:n=200:k=1344:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:batch=2",
       "m=5:n=72:k=512:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
  // Products by warps; parts without tokens of their own, with unequal shares of K.
  check<meeting(packed(scaled(tile(kBf, kI4, 128, 8, 2), kHalf, 128)), 3)>(
      {"m=7:n=136:k=1344:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
  check<meeting(packed(scaled(tile(kHalf, kU4, 128, 64, 2), DType::kF32, 64, kU4)), 3)>(
      {"m=61:n=200:k=1472:a=f16:b=u4:packed=fragments:scale_b=f32.1x64:zero_b=u4",
       "m=33:n=40:k=832:a=f16:b=u4:packed=fragments:scale_b=f32.1x64:zero_b=u4"});
  check<meeting(packed(tile(kBf, kU4, 64, 64, 1)), 6)>({"m=61:n=136:k=1600:a=bf16:b=u4:packed=fragments"});
  check<meeting(packed(scaled(tile(kBf, kI4, 192, 32, 3), kHalf, 128)), 4)>(
      {"m=30:n=200:k=2048:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
  check<meeting(
      packed(linear(scaled(tile(kHalf, kI4, 128, 16, 1), kHalf, 32), GateMode::kSeparated, Activation::kSilu, kHalf)),
      8)>({"m=13:n=256:k=2112:a=f16:b=i4:packed=fragments:scale_b=f16.1x32:gate=separated:act=silu"});
}

TEST(EmulatedGemmSm90Dequant, PackedIntegersTakeAAsItLies) {
  check<packed(tile(kBf, kI4, 64, 16, 1))>(
      {"m=13:n=72:k=576:a=bf16:b=i4:packed=fragments", "m=1:n=5:k=64:a=bf16:b=i4:packed=fragments"});
  check<packed(tile(kHalf, kU4, 128, 32, 1))>({"m=30:n=200:k=832:a=f16:b=u4:packed=fragments:batch=2"});
  check<packed(tile(kBf, kU4, 64, 128, 1))>({"m=101:n=136:k=1600:a=bf16:b=u4:packed=fragments"});
  check<packed(scaled(tile(kBf, kI4, 64, 16, 1), kHalf, 128))>(
      {"m=13:n=72:k=832:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
       "m=3:n=88:k=448:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:batch=3"});
  check<packed(scaled(tile(kBf, kI4, 192, 64, 3), kHalf, 128))>(
      {"m=61:n=200:k=1472:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
  check<packed(scaled(tile(kHalf, kU4, 128, 64, 2), DType::kF32, 64, kU4))>(
      {"m=61:n=200:k=1472:a=f16:b=u4:packed=fragments:scale_b=f32.1x64:zero_b=u4"});
  check<packed(scaled(tile(kBf, kU4, 128, 8, 2), kHalf, 32, kU4))>(
      {"m=7:n=200:k=1472:a=bf16:b=u4:packed=fragments:scale_b=f16.1x32:zero_b=u4"});
  check<split(packed(scaled(tile(kBf, kI4, 128, 16, 1), kHalf, 128)), 2)>(
      {"m=13:n=136:k=1344:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
  check<split(packed(scaled(tile(kBf, kI4, 64, 8, 1), kBf, 64)), 0)>(
      {"m=7:n=200:k=1344:a=bf16:b=i4:packed=fragments:scale_b=bf16.1x64:batch=2"});
  check<packed(linear(scaled(tile(kBf, kI4, 128, 16, 1), kHalf, 128), GateMode::kSeparated, Activation::kSilu, kBf))>(
      {"m=13:n=384:k=576:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:gate=separated:act=silu"});
  check<packed(scaled(tile(kBf, kI4, 128, 16, 1), kHalf, 64))>(
      {"m=13:n=136:k=832:a=bf16:b=i4:packed=fragments:scale_b=f16.1x64"});
  check<packed(scaled(tile(kBf, kU4, 256, 8, 2), kHalf, 32, kU4))>(
      {"m=7:n=264:k=832:a=bf16:b=u4:packed=fragments:scale_b=f16.1x32:zero_b=u4"});
}

// Codes of a group's scale, row by row: far apart, beyond what a factor of bf16 holds at first and later, and NaN.
unsigned char far_code(int row, int group) {
  if (row % 8 == 7 && group == 3) return 255;
  constexpr unsigned char kCodes[] = {127, 90, 128, 129, 160, 127, 200, 1, 0, 201};
  return kCodes[static_cast<size_t>(row % 8 + group) % std::size(kCodes)];
}
template <GemmSm90DequantConfig kConfig>
void check_far_scales() {
  constexpr int kM = 3, kN = 72, kK = 800, kGroups = kK / 32;
  const GemmProblem p = emulated::problem_of(fmt::format("m={}:n={}:k={}:a=bf16:b=e2m1:scale_b=e8m0.1x32", kM, kN, kK));
  emulated::EmulatedCudaDevice device("sm_90a");
  RecipeStep step;
  step.key = make_key("gemm", "gemm_sm90_dequant", "sm_90a", "dtype=bf16", print_fields(kConfig));
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { gemm_sm90_dequant<kConfig>(*static_cast<const GemmSm90DequantArgs*>(args)); });
  const KernelFamily& family = gemm_sm90_dequant_family();
  Plan plan;
  ASSERT_NO_FATAL_FAILURE(emulated::make_plan(device, family.stages(erase(p), device.spec(), step, kernel),
                                              family.workspace_bytes(erase(p), device.spec(), step), plan));
  alignas(128) static bf16 a[kM * kK], d[kM * kN];
  // Copies are of whole sixteens.
  alignas(128) static unsigned char b[kN * kK / 2], scales[(kN * kGroups + 15) / 16 * 16];
  const auto weight = [](int n, int k) { return (n * 7 + k * 5 + k / 16) % 16; };
  const auto token = [](int m, int k) { return static_cast<float>((m * 3 + k) % 7 - 2); };
  for (int i = 0; i < kM * kK; ++i) a[i] = narrow<bf16>(token(i / kK, i % kK));
  for (int i = 0; i < kN * kK; i += 2) {
    b[i / 2] = static_cast<unsigned char>(weight(i / kK, i % kK) | weight(i / kK, i % kK + 1) << 4);
  }
  for (int i = 0; i < kN * kGroups; ++i) scales[i] = far_code(i / kGroups, i % kGroups);
  std::array<const void*, kGemmPointerSlots> pointers{};
  pointers[kSlotA] = a, pointers[kSlotB] = b, pointers[kSlotScaleB] = scales, pointers[kSlotD] = d;
  std::array<float, kGemmScalarSlots> scalars{};
  scalars[kScalarAlpha] = 1;
  const Status status = run_plan(device, plan, {pointers, scalars, nullptr}, {});
  ASSERT_TRUE(status.ok()) << status.message();
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double sum = 0, size = 0;
      for (int k = 0; k < kK; ++k) {
        const int code = weight(n, k);
        const double scale = static_cast<double>(widen(e8m0{far_code(n, k / 32)}));
        const double product = kValues[code % 8] * (code < 8 ? 1 : -1) * scale * static_cast<double>(token(m, k));
        sum += product, size += std::fabs(product);
      }
      const auto got = static_cast<double>(widen(d[m * kN + n]));
      if (std::isnan(sum)) {
        EXPECT_TRUE(std::isnan(got)) << m << ", " << n;
      } else {
        EXPECT_NEAR(got, sum, std::fabs(sum) / 256 + size * 1e-5) << m << ", " << n;
      }
    }
  }
}
TEST(EmulatedGemmSm90Dequant, ScalesBeyondAFactorsRangeGrowTheShiftOfTheirRowAlone) {
  constexpr GemmSm90DequantConfig kStepwise = scaled(tile(kBf, kE2, 64, 8, 1), kE8, 32);
  check_far_scales<kStepwise>();
  check_far_scales<whole(kStepwise, 32)>();
  // A part sees its own codes only: the shifts of parts differ, and one alone has what is no number.
  check_far_scales<split(whole(kStepwise, 32), 2)>();
  check_far_scales<split(whole(kStepwise, 32), 0)>();
  check_far_scales<whole(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32), 32)>();
  check_far_scales<whole(scaled(tile(kBf, kE2, 192, 64, 3), kE8, 32), 32)>();
}

TEST(EmulatedGemmSm90Dequant, TilesOfEachShapeAreMultipliedRight) {
  check<scaled(tile(kBf, kI4, 64, 8, 1), DType::kBf16, 128)>(
      {"m=1:n=72:k=1312:a=bf16:b=i4:scale_b=bf16.1x128", "m=1:n=8:k=32:a=bf16:b=i4:scale_b=bf16.1x128"});
  check<scaled(tile(kBf, kI4, 128, 32, 2), DType::kBf16, 128)>({"m=32:n=264:k=544:a=bf16:b=i4:scale_b=bf16.1x128"});
  check<tile(kBf, kE4, 128, 64, 1)>({"m=64:n=200:k=272:a=bf16:b=e4m3:batch=2"});
  check<tile(kBf, kE4, 256, 16, 2)>({"m=9:n=520:k=272:a=bf16:b=e4m3"});
  check<scaled(tile(kBf, kI4, 192, 64, 3), DType::kF16, 128)>({"m=60:n=400:k=544:a=bf16:b=i4:scale_b=f16.1x128"});
  check<tile(kBf, kE4, 128, 128, 2)>({"m=100:n=136:k=272:a=bf16:b=e4m3"});
  check<tile(kBf, kE4, 64, 128, 1)>({"m=100:n=72:k=272:a=bf16:b=e4m3"});
}

TEST(EmulatedGemmSm90Dequant, ScalesBiasActivationsAndGatesFollow) {
  check<linear(tile(kHalf, kE4, 64, 16, 1), GateMode::kNone, Activation::kGelu, DType::kF32)>(
      {"m=13:n=72:k=272:a=f16:b=e4m3:scale_b=f32:bias=f32:act=gelu:d=f32"});
  check<linear(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32), GateMode::kSeparated, Activation::kSilu, kBf)>(
      {"m=13:n=144:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu"});
  check<linear(tile(kBf, kE5, 64, 16, 1), GateMode::kInterleaved, Activation::kSilu, kBf)>(
      {"m=13:n=72:k=272:a=bf16:b=e5m2:gate=interleaved:act=silu"});
}

}  // namespace
}  // namespace tilewright
