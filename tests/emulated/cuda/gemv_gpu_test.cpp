// SPDX-License-Identifier: MIT
// gemv_gpu, the source that NVRTC compiles, on the host: right results at ragged sizes through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/portable/gemv_gpu.cuh"

#include "core/fields.hpp"

namespace tilewright {
namespace {

using emulated::HostKernel;

template <GemvGpuConfig kConfig>
void check(std::initializer_list<const char*> problems) {
  emulated::EmulatedCudaDevice device("sm_90a");
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { gemv_gpu<kConfig>(*static_cast<const GemmArgs*>(args)); });
  RecipeStep step;
  step.key =
      make_key("gemm", "gemv_gpu", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)), print_fields(kConfig));
  for (const char* text : problems) {
    emulated::check_plan(device, emulated::problem_of(text), gemv_gpu_family(), step, kernel);
  }
}

constexpr GemvGpuConfig config(int warps, int depth, EpilogueKind kind = EpilogueKind::kPlain,
                               GateMode gate = GateMode::kNone, DType dtype = DType::kBf16) {
  return {.dtype = dtype,
          .epilogue = kind,
          .activation = gate == GateMode::kNone ? Activation::kNone : Activation::kSilu,
          .gate = gate,
          .d_dtype = kind == EpilogueKind::kFull ? DType::kNone : DType::kBf16,
          .rows = 16,
          .warps = warps,
          .depth = depth,
          .blocks = 2};
}
constexpr GemvGpuConfig wide() {
  GemvGpuConfig c = config(2, 2);
  c.rows = 32;
  return c;
}

TEST(EmulatedGemvGpu, RaggedSizesFillAndDrain) {
  check<config(8, 4)>({"m=1:n=16:k=2048", "m=1:n=37:k=4096", "m=8:n=50:k=5000", "m=3:n=1:k=8", "m=5:n=33:k=1032"});
  check<config(4, 4)>({"m=2:n=33:k=1032", "m=7:n=31:k=3080"});
  check<config(8, 2)>({"m=2:n=33:k=1032"});
  check<wide()>({"m=8:n=70:k=264", "m=1:n=31:k=520"});
}

TEST(EmulatedGemvGpu, BatchesAndStridesAreReadWhereTheyLie) {
  check<config(4, 2)>({"m=3:n=40:k=200:batch=3", "m=3:n=40:k=200:sa=0.208.1:sb=0.1.216:sd=0.97.2"});
}

TEST(EmulatedGemvGpu, BytesAreMultipliedExactly) {
  check<config(4, 2, EpilogueKind::kLinear, GateMode::kNone, DType::kI8)>(
      {"m=5:n=41:k=1040:a=i8:d=bf16:scale_a=f32:scale_b=f32:alpha=1:bias=f16"});
}

TEST(EmulatedGemvGpu, EightBitFloatsAreMultipliedAndScaled) {
  check<config(4, 2, EpilogueKind::kLinear, GateMode::kNone, DType::kF8E4M3)>(
      {"m=5:n=41:k=1040:a=e4m3:scale_a=f32:scale_b=f32:bias=f16"});
  check<config(4, 2, EpilogueKind::kLinear, GateMode::kNone, DType::kF8E5M2)>({"m=8:n=33:k=528:a=e5m2:alpha=1"});
}

TEST(EmulatedGemvGpu, GatesAndFullEpiloguesGiveWhatTheirArgumentsSay) {
  check<config(4, 2, EpilogueKind::kLinear, GateMode::kSeparated)>(
      {"m=3:n=42:k=264:gate=separated:act=silu", "m=1:n=16:k=64:gate=separated:act=silu:bias=bf16"});
  check<config(4, 2, EpilogueKind::kLinear, GateMode::kInterleaved)>({"m=3:n=42:k=264:gate=interleaved:act=silu"});
  check<config(4, 2, EpilogueKind::kFull)>({"m=3:n=43:k=264:c=bf16:steps=add.bf16+act.gelu", "m=8:n=16:k=64:act=relu"});
}

}  // namespace
}  // namespace tilewright
