// SPDX-License-Identifier: MIT
// gemv_dequant_gpu, the source that NVRTC compiles, on the host: every weight, each way in which scales and zero points are
// taken, lines that end inside K, tiles and slices of K one after another, through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/portable/dequant/gemv_dequant_gpu.cuh"

#include "core/fields.hpp"

namespace tilewright {
namespace {

template <GemvDequantGpuConfig kConfig>
void check_dequant(std::initializer_list<const char*> problems) {
  static_assert(gemv_dequant_gpu_refusal(kConfig) == nullptr);
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { gemv_dequant_gpu<kConfig>(*static_cast<const GemvDequantGpuArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemv_dequant_gpu", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemv_dequant_gpu_family(), step, kernel);
  }
}

struct Cut {
  int rows, tokens, warps, depth, steps;
};
constexpr GemvDequantGpuConfig cut(DType dtype, DType weight, const Cut& c) {
  return {.dtype = dtype,
          .weight = weight,
          .scale = DType::kNone,
          .group = 0,
          .zero = DType::kNone,
          .epilogue = EpilogueKind::kPlain,
          .activation = Activation::kNone,
          .gate = GateMode::kNone,
          .d_dtype = dtype,
          .rows = c.rows,
          .tokens = c.tokens,
          .warps = c.warps,
          .depth = c.depth,
          .steps = c.steps,
          .blocks = 1};
}
constexpr GemvDequantGpuConfig grouped(GemvDequantGpuConfig c, DType scale, int group, DType zero = DType::kNone) {
  c.scale = scale, c.group = group, c.zero = zero;
  return c;
}
constexpr GemvDequantGpuConfig with_epilogue(GemvDequantGpuConfig c, EpilogueKind kind, GateMode gate,
                                             Activation activation, DType d) {
  c.epilogue = kind, c.gate = gate, c.activation = activation, c.d_dtype = d;
  return c;
}
constexpr DType kBf = DType::kBf16, kHalf = DType::kF16, kU4 = DType::kU4, kI4 = DType::kI4, kI8 = DType::kI8;
constexpr DType kE2 = DType::kF4E2M1, kE4 = DType::kF8E4M3, kE5 = DType::kF8E5M2, kE8 = DType::kE8M0;
constexpr Cut kFew{16, 8, 2, 2, 4}, kMany{32, 16, 3, 1, 8}, kHigh{48, 4, 2, 1, 8};

TEST(EmulatedGemvDequantGpu, EachWeightIsWidenedRight) {
  check_dequant<cut(kBf, kI4, kFew)>({"m=5:n=37:k=544:a=bf16:b=i4"});
  check_dequant<cut(kBf, kU4, kMany)>({"m=13:n=72:k=544:a=bf16:b=u4"});
  check_dequant<cut(kHalf, kU4, kFew)>({"m=8:n=37:k=544:a=f16:b=u4"});
  check_dequant<cut(kHalf, kI4, kFew)>({"m=8:n=37:k=544:a=f16:b=i4"});
  check_dequant<cut(kBf, kI8, kFew)>({"m=3:n=37:k=272:a=bf16:b=i8"});
  check_dequant<cut(kHalf, kI8, kMany)>({"m=16:n=40:k=272:a=f16:b=i8"});
  check_dequant<cut(kBf, kE4, kFew)>({"m=8:n=37:k=272:a=bf16:b=e4m3"});
  check_dequant<cut(kHalf, kE5, kFew)>({"m=8:n=37:k=272:a=f16:b=e5m2"});
  check_dequant<cut(kHalf, kE2, kFew)>({"m=8:n=37:k=544:a=f16:b=e2m1"});
  check_dequant<cut(kBf, kE2, kFew)>({"m=8:n=37:k=544:a=bf16:b=e2m1"});
  check_dequant<cut(kBf, kI4, kHigh)>({"m=3:n=201:k=544:a=bf16:b=i4"});
}

TEST(EmulatedGemvDequantGpu, GroupsAreSummedApart) {
  check_dequant<grouped(cut(kBf, kI4, kFew), DType::kF16, 128)>({"m=5:n=37:k=800:a=bf16:b=i4:scale_b=f16.1x128"});
  check_dequant<grouped(cut(kBf, kI4, kMany), DType::kBf16, 64)>({"m=13:n=72:k=544:a=bf16:b=i4:scale_b=bf16.1x64"});
  check_dequant<grouped(cut(kHalf, kU4, kFew), DType::kF32, 32)>({"m=8:n=37:k=544:a=f16:b=u4:scale_b=f32.1x32"});
  check_dequant<grouped(cut(kHalf, kE2, kFew), kE8, 32)>({"m=8:n=37:k=544:a=f16:b=e2m1:scale_b=e8m0.1x32"});
  check_dequant<grouped(cut(kBf, kE2, kFew), DType::kF16, 64)>({"m=8:n=37:k=544:a=bf16:b=e2m1:scale_b=f16.1x64"});
  check_dequant<grouped(cut(kBf, kI8, kFew), DType::kF32, 128)>({"m=5:n=37:k=464:a=bf16:b=i8:scale_b=f32.1x128"});
  check_dequant<grouped(cut(kHalf, kE4, kFew), DType::kF32, 32)>({"m=8:n=37:k=272:a=f16:b=e4m3:scale_b=f32.1x32"});
  check_dequant<grouped(cut(kBf, kE5, kFew), DType::kF32, 64)>({"m=8:n=37:k=272:a=bf16:b=e5m2:scale_b=f32.1x64"});
}

TEST(EmulatedGemvDequantGpu, ZeroPointsOfEitherSignAreTakenAway) {
  check_dequant<grouped(cut(kBf, kU4, kFew), DType::kF16, 128, kU4)>(
      {"m=5:n=37:k=800:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4"});
  check_dequant<grouped(cut(kHalf, kI4, kFew), DType::kF32, 32, kI4)>(
      {"m=5:n=37:k=544:a=f16:b=i4:scale_b=f32.1x32:zero_b=i4"});
  check_dequant<grouped(cut(kHalf, kU4, kFew), DType::kF16, 64, kI4)>(
      {"m=5:n=37:k=544:a=f16:b=u4:scale_b=f16.1x64:zero_b=i4"});
  check_dequant<grouped(cut(kBf, kU4, kFew), DType::kF16, 64, kI4)>(
      {"m=5:n=37:k=544:a=bf16:b=u4:scale_b=f16.1x64:zero_b=i4"});
  check_dequant<grouped(cut(kBf, kI4, kFew), DType::kF16, 64, kU4)>(
      {"m=5:n=37:k=544:a=bf16:b=i4:scale_b=f16.1x64:zero_b=u4"});
  check_dequant<grouped(cut(kBf, kI8, kFew), DType::kF16, 128, kI8)>(
      {"m=5:n=37:k=464:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8"});
}

TEST(EmulatedGemvDequantGpu, PowersOfTwoGoAlongWithTheWeights) {
  check_dequant<grouped(cut(kBf, kE2, kFew), kE8, 32)>({"m=5:n=37:k=800:a=bf16:b=e2m1:scale_b=e8m0.1x32"});
  check_dequant<grouped(cut(kBf, kE2, kMany), kE8, 128)>({"m=13:n=72:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x128"});
}

TEST(EmulatedGemvDequantGpu, TilesSlicesAndBatchesFollowOneAnother) {
  // Slices of 2 x 2 x 128 values; blocks of many tiles.
  constexpr Cut kSlices{16, 4, 2, 2, 1};
  check_dequant<grouped(cut(kBf, kI4, kSlices), DType::kF16, 128)>(
      {"m=3:n=2300:k=1312:a=bf16:b=i4:scale_b=f16.1x128", "m=4:n=1:k=32:a=bf16:b=i4:scale_b=f16.1x128",
       "m=2:n=700:k=1056:a=bf16:b=i4:scale_b=f16.1x128:batch=7"});
  check_dequant<cut(kBf, kI4, {16, 1, 4, 1, 8})>(
      {"m=1:n=5000:k=544:a=bf16:b=i4", "m=1:n=100:k=544:a=bf16:b=i4:batch=50"});
  check_dequant<cut(kBf, kI4, {16, 2, 4, 1, 8})>(
      {"m=2:n=40:k=544:a=bf16:b=i4:sa=0.560.1:sb=0.1.576:sd=0.97.2", "m=2:n=300:k=64:a=bf16:b=i4:batch=9:sa=0.64.1"});
}

TEST(EmulatedGemvDequantGpu, GatesAndFullEpiloguesGiveWhatTheirArgumentsSay) {
  constexpr auto kSilu = Activation::kSilu;
  check_dequant<with_epilogue(grouped(cut(kBf, kI4, kFew), DType::kF16, 128), EpilogueKind::kLinear,
                              GateMode::kSeparated, kSilu, kBf)>(
      {"m=5:n=74:k=800:a=bf16:b=i4:scale_b=f16.1x128:gate=separated:act=silu"});
  check_dequant<with_epilogue(cut(kBf, kI4, kHigh), EpilogueKind::kLinear, GateMode::kSeparated, kSilu, kBf)>(
      {"m=4:n=202:k=544:a=bf16:b=i4:gate=separated:act=silu"});
  check_dequant<with_epilogue(cut(kBf, kI4, kMany), EpilogueKind::kLinear, GateMode::kInterleaved, kSilu, kBf)>(
      {"m=13:n=74:k=800:a=bf16:b=i4:gate=interleaved:act=silu:bias=bf16"});
  check_dequant<with_epilogue(cut(kBf, kE4, kFew), EpilogueKind::kLinear, GateMode::kNone, Activation::kGelu,
                              DType::kF32)>({"m=5:n=37:k=272:a=bf16:b=e4m3:scale_b=f32:bias=f32:act=gelu:d=f32"});
  check_dequant<with_epilogue(cut(kBf, kI4, kFew), EpilogueKind::kFull, GateMode::kNone, Activation::kNone,
                              DType::kNone)>({"m=5:n=37:k=544:a=bf16:b=i4:c=bf16:steps=add.bf16+act.gelu"});
}

}  // namespace
}  // namespace tilewright
