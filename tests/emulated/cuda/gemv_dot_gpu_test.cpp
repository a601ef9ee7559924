// SPDX-License-Identifier: MIT
// gemv_dot_gpu, the source that NVRTC compiles, on the host: right results at ragged sizes through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/portable/gemv_dot_gpu.cuh"

#include "core/fields.hpp"

namespace tilewright {
namespace {

using emulated::HostKernel;

template <GemvDotGpuConfig kConfig>
void check(std::initializer_list<const char*> problems) {
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { gemv_dot_gpu<kConfig>(*static_cast<const GemmArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemv_dot_gpu", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemv_dot_gpu_family(), step, kernel);
  }
}

constexpr GemvDotGpuConfig config(int tokens, int warps, int depth, DType dtype = DType::kBf16,
                                  EpilogueKind kind = EpilogueKind::kPlain, GateMode gate = GateMode::kNone) {
  return {.dtype = dtype,
          .epilogue = kind,
          .activation = gate == GateMode::kNone ? Activation::kNone : Activation::kSilu,
          .gate = gate,
          .d_dtype = kind == EpilogueKind::kFull ? DType::kNone : DType::kBf16,
          .tokens = tokens,
          .warps = warps,
          .depth = depth,
          .blocks = 4};
}

TEST(EmulatedGemvDotGpu, RaggedSizesFillAndDrain) {
  check<config(1, 4, 4)>({"m=1:n=16:k=2048", "m=1:n=37:k=4096", "m=1:n=1:k=8", "m=1:n=33:k=1032", "m=1:n=5:k=6152"});
  check<config(2, 8, 2)>({"m=2:n=33:k=1032", "m=2:n=31:k=3080", "m=1:n=9:k=512"});
  check<config(1, 4, 8)>({"m=1:n=6:k=5000"});
}

TEST(EmulatedGemvDotGpu, BatchesAndStridesAreReadWhereTheyLie) {
  check<config(2, 4, 2)>({"m=2:n=40:k=200:batch=3", "m=2:n=40:k=200:sa=0.208.1:sb=0.1.216:sd=0.97.2"});
}

TEST(EmulatedGemvDotGpu, EveryTypeIsMultipliedRight) {
  check<config(2, 4, 2, DType::kF16, EpilogueKind::kFull)>({"m=2:n=41:k=1040:a=f16"});
  check<config(2, 4, 2, DType::kF32, EpilogueKind::kFull)>({"m=2:n=41:k=1036:a=f32:bias=f32"});
  check<config(2, 4, 2, DType::kI8, EpilogueKind::kLinear)>(
      {"m=2:n=41:k=1040:a=i8:d=bf16:scale_a=f32:scale_b=f32:alpha=1:bias=f16"});
}

TEST(EmulatedGemvDotGpu, GatesAndFullEpiloguesGiveWhatTheirArgumentsSay) {
  check<config(2, 4, 2, DType::kBf16, EpilogueKind::kLinear, GateMode::kSeparated)>(
      {"m=2:n=42:k=264:gate=separated:act=silu", "m=1:n=16:k=64:gate=separated:act=silu:bias=bf16"});
  check<config(2, 8, 2, DType::kBf16, EpilogueKind::kLinear, GateMode::kInterleaved)>(
      {"m=2:n=42:k=264:gate=interleaved:act=silu"});
  check<config(2, 4, 2, DType::kBf16, EpilogueKind::kFull)>(
      {"m=2:n=43:k=264:c=bf16:steps=add.bf16+act.gelu", "m=2:n=16:k=64:act=relu"});
}

}  // namespace
}  // namespace tilewright
