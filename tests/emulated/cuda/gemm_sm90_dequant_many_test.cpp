// SPDX-License-Identifier: MIT
// gemm_sm90_dequant_many, the source that NVRTC compiles, on the host: rows of A in several pieces, of which the last one has fewer, by
// each way in which A and scales come, through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/sm90/dequant/gemm_sm90_dequant_many.cuh"

#include "core/fields.hpp"
#include "emulated/cuda/dequant_configs.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {
namespace {

using namespace emulated::dequant;

template <GemmSm90DequantConfig kConfig>
void check_many(std::initializer_list<const char*> problems, int64_t raster = 0) {
  static_assert(gemm_sm90_dequant_many_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { gemm_sm90_dequant_many<kConfig>(*static_cast<const GemmSm90DequantManyArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemm_sm90_dequant_many", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  step.knobs.values[0] = raster;
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemm_sm90_dequant_many_family(), step, kernel);
    EXPECT_TRUE(device.zeros_are_left()) << text;
  }
}

TEST(EmulatedGemmSm90DequantMany, RowsAreCutInPiecesOfATilesTokens) {
  // One piece that is not full, two, several with one row in the last one; pieces that take turns in groups and all at once.
  constexpr GemmSm90DequantConfig kTile = packed(scaled(tile(kBf, kI4, 64, 16, 1), kHalf, 128));
  for (const int64_t raster : {0, 1, 2, 3, 100}) {
    check_many<kTile>({"m=7:n=72:k=192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
                       "m=32:n=72:k=576:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
                       "m=81:n=200:k=320:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"},
                      raster);
  }
  check_many<kTile>({"m=40:n=136:k=320:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:batch=3"});
}

TEST(EmulatedGemmSm90DequantMany, AIsRearrangedPieceByPiece) {
  check_many<scaled(tile(kBf, kI4, 64, 16, 1), kHalf, 128)>(
      {"m=81:n=200:k=320:a=bf16:b=i4:scale_b=f16.1x128", "m=40:n=72:k=800:a=bf16:b=i4:scale_b=f16.1x128:batch=3"});
  check_many<tile(kHalf, kE4, 64, 16, 1)>({"m=50:n=72:k=272:a=f16:b=e4m3"});
  check_many<whole(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32), 32)>(
      {"m=50:n=136:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=33:n=72:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=2"});
  check_many<packed(whole(scaled(tile(kBf, kE2, 64, 16, 1), kE8, 32), 48))>(
      {"m=50:n=136:k=1344:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32"});
}

TEST(EmulatedGemmSm90DequantMany, TilesWithManySumsBorrowRegisters) {
  static_assert(gemm_sm90_dequant_lends(scaled(tile(kBf, kI4, 128, 128, 2), kHalf, 128)));
  constexpr GemmSm90DequantConfig kTall = staged(tile(kBf, kI4, 128, 128, 2), 2), kWide = tile(kBf, kE4, 256, 128, 2);
  check_many<packed(scaled(kTall, kHalf, 128))>({"m=140:n=136:k=576:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
  check_many<scaled(staged(tile(kBf, kU4, 128, 128, 2), 2), kHalf, 64, kU4)>(
      {"m=140:n=136:k=544:a=bf16:b=u4:scale_b=f16.1x64:zero_b=u4"});
  check_many<kWide>({"m=140:n=264:k=272:a=bf16:b=e4m3"});
  check_many<packed(scaled(tile(kBf, kI4, 256, 64, 2), kHalf, 128))>(
      {"m=70:n=264:k=576:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"});
}

TEST(EmulatedGemmSm90DequantMany, WhatGoesByRowFollowsItsPiece) {
  // Scales of rows, a bias of columns, gates.
  check_many<linear(packed(scaled(tile(kBf, kI4, 64, 16, 1), kHalf, 128)), GateMode::kNone, Activation::kGelu,
                    DType::kF32)>(
      {"m=50:n=72:k=320:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128:scale_a=f32:bias=f32:act=gelu:d=f32"});
  check_many<linear(scaled(tile(kBf, kE2, 128, 16, 1), kE8, 32), GateMode::kSeparated, Activation::kSilu, kBf)>(
      {"m=50:n=144:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu"});
  check_many<linear(tile(kBf, kE5, 64, 16, 1), GateMode::kInterleaved, Activation::kSilu, kBf)>(
      {"m=50:n=72:k=272:a=bf16:b=e5m2:gate=interleaved:act=silu:scale_a=f32"});
}

}  // namespace
}  // namespace tilewright
