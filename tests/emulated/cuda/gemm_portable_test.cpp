// SPDX-License-Identifier: MIT
// gemm_portable and gemm_generic_gpu, the source that NVRTC compiles, on the host: right results at ragged sizes through
// the families' own stages, for each layout, copy, type, gate, epilogue and split.
#include <gmock/gmock.h>

#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/emulated_device.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/gpu/gemm_generic_gpu.cuh"
#include "gemm/portable/gemm_portable.cuh"

#include "core/fields.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

using emulated::check_plan;
using emulated::EmulatedCudaDevice;
using emulated::HostKernel;
using emulated::problem_of;

// One instance on every problem.
template <GemmPortableConfig kConfig>
void check(std::initializer_list<const char*> problems, int64_t split_k = 0, int64_t band = 0) {
  EmulatedCudaDevice device("sm_90a");
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { gemm_portable<kConfig>(*static_cast<const GemmArgs*>(args)); });
  RecipeStep step;
  step.key = make_key("gemm", "gemm_portable", "sm_90a", fmt::format("dtype={}", dtype_name(kConfig.dtype)),
                      print_fields(kConfig));
  step.knobs.values = {band, split_k};
  for (const char* text : problems) check_plan(device, problem_of(text), gemm_portable_family(), step, kernel);
}

// 64 x 64 tiles, four warps.
constexpr GemmPortableConfig kBase{.dtype = DType::kBf16,
                                   .mma = PortableMma::kMma,
                                   .a_major = Major::kK,
                                   .b_major = Major::kK,
                                   .a_copy = 16,
                                   .b_copy = 16,
                                   .tile_m = 64,
                                   .tile_n = 64,
                                   .tile_k = 32,
                                   .warps_m = 2,
                                   .warps_n = 2,
                                   .stages = 3,
                                   .epilogue = EpilogueKind::kPlain,
                                   .activation = Activation::kNone,
                                   .gate = GateMode::kNone,
                                   .d_dtype = DType::kBf16};
constexpr GemmPortableConfig layout(Major a, Major b, int copy, DType dtype = DType::kBf16) {
  GemmPortableConfig c = kBase;
  c.a_major = a, c.b_major = b, c.a_copy = copy, c.b_copy = copy, c.dtype = c.d_dtype = dtype;
  return c;
}
constexpr GemmPortableConfig tile(int m, int n, int k, int warps_m, int warps_n, int stages) {
  GemmPortableConfig c = kBase;
  c.tile_m = m, c.tile_n = n, c.tile_k = k, c.warps_m = warps_m, c.warps_n = warps_n, c.stages = stages;
  return c;
}
constexpr GemmPortableConfig finish(EpilogueKind kind, Activation activation, GateMode gate, DType d_dtype) {
  GemmPortableConfig c = kBase;
  c.epilogue = kind, c.activation = activation, c.gate = gate, c.d_dtype = d_dtype;
  return c;
}
constexpr GemmPortableConfig bytes(DType dtype, Major b_major) {
  GemmPortableConfig c = kBase;
  c.dtype = dtype, c.tile_k = 64, c.b_major = b_major, c.b_copy = b_major == Major::kK ? 16 : 0;
  c.epilogue = EpilogueKind::kLinear;
  return c;
}
constexpr GemmPortableConfig fma(Major a, Major b) {
  GemmPortableConfig c = layout(a, b, 0, DType::kF32);
  c.mma = PortableMma::kFma, c.tile_k = 16;
  c.a_copy = a == Major::kMn ? 16 : 0, c.b_copy = b == Major::kMn ? 16 : 0;
  return c;
}

constexpr GemmPortableConfig tf32(int copy) {
  GemmPortableConfig c = layout(Major::kK, Major::kK, copy, DType::kF32);
  c.mma = PortableMma::kTf32, c.tile_k = 16;
  return c;
}

TEST(EmulatedGemmPortable, EveryLayoutIsReadAsItLies) {
  check<layout(Major::kK, Major::kK, 16)>(
      {"m=70:n=72:k=88", "m=64:n=64:k=32", "m=1:n=1:k=8", "m=130:n=40:k=200:batch=2"});
  check<layout(Major::kK, Major::kMn, 16)>({"m=70:n=72:k=88:layout=rrr"});
  check<layout(Major::kMn, Major::kMn, 16, DType::kF16)>({"m=72:n=72:k=85:a=f16:layout=crr"});
  check<layout(Major::kMn, Major::kK, 16)>({"m=72:n=70:k=88:layout=ccr"});
}

TEST(EmulatedGemmPortable, NarrowCopiesServeOddStridesAndPointers) {
  check<layout(Major::kK, Major::kK, 4)>({"m=67:n=35:k=46", "m=67:n=35:k=46:align=4.4.2"});
  check<layout(Major::kMn, Major::kMn, 4)>({"m=66:n=34:k=45:layout=crr"});
  check<layout(Major::kK, Major::kK, 0)>(
      {"m=67:n=35:k=45", "m=1:n=1:k=1", "m=5:n=3:k=7:sa=0.100.3:sb=0.2.50:sd=0.9.2"});
  check<layout(Major::kMn, Major::kMn, 0, DType::kF16)>({"m=67:n=35:k=45:a=f16:layout=crc"});
}

TEST(EmulatedGemmPortable, TilesOfEveryShapeFillAndDrain) {
  check<tile(128, 128, 32, 2, 2, 4)>({"m=136:n=130:k=200"});
  check<tile(16, 64, 128, 1, 4, 5)>({"m=3:n=70:k=1000", "m=17:n=64:k=8"});
  check<tile(32, 32, 16, 1, 1, 2)>({"m=33:n=70:k=48"});
  check<tile(64, 256, 64, 2, 4, 2)>({"m=60:n=300:k=72"});
}

TEST(EmulatedGemmPortable, BytesAreMultipliedExactlyInEveryLayout) {
  check<bytes(DType::kI8, Major::kK)>({"m=70:n=40:k=208:a=i8:scale_a=f32:scale_b=f32:alpha=1"});
  check<bytes(DType::kI8, Major::kMn)>({"m=70:n=41:k=208:a=i8:layout=rrr:scale_a=f32:bias=f16"});
}

TEST(EmulatedGemmPortable, EightBitFloatsAreMultipliedInEveryLayout) {
  check<bytes(DType::kF8E4M3, Major::kK)>({"m=70:n=40:k=208:a=e4m3:scale_a=f32:scale_b=f32:alpha=1"});
  check<bytes(DType::kF8E5M2, Major::kMn)>({"m=70:n=41:k=208:a=e5m2:layout=rrr:scale_a=f32:bias=f16"});
}

TEST(EmulatedGemmPortable, F32IsMultipliedByFusedMultiplyAdds) {
  check<fma(Major::kK, Major::kK)>({"m=67:n=70:k=45:a=f32", "m=67:n=70:k=45:a=f32:sa=0.100.2"});
  check<fma(Major::kMn, Major::kMn)>({"m=68:n=72:k=45:a=f32:layout=crr"});
}

TEST(EmulatedGemmPortable, Tf32IsMultipliedWhereItIsAllowed) {
  check<tf32(16)>({"m=70:n=72:k=88:a=f32:allow_tf32=1"});
  check<tf32(0)>({"m=67:n=35:k=45:a=f32:allow_tf32=1", "m=67:n=35:k=45:a=f32:layout=crr:allow_tf32=1"});
}

TEST(EmulatedGemmPortable, EpiloguesAndGatesGiveWhatTheirArgumentsSay) {
  check<finish(EpilogueKind::kLinear, Activation::kGelu, GateMode::kNone, DType::kF16)>(
      {"m=70:n=72:k=40:d=f16:scale_a=f32:scale_b=f32:bias=bf16:alpha=1:act=gelu", "m=70:n=71:k=40:d=f16:act=gelu",
       "m=70:n=71:k=40:d=f16:act=gelu:bias=f32.0.0.2"});
  check<finish(EpilogueKind::kLinear, Activation::kSilu, GateMode::kSeparated, DType::kBf16)>(
      {"m=70:n=90:k=40:gate=separated:act=silu:bias=f32", "m=3:n=2:k=40:gate=separated:act=silu"});
  check<finish(EpilogueKind::kLinear, Activation::kSilu, GateMode::kInterleaved, DType::kF32)>(
      {"m=70:n=90:k=40:d=f32:gate=interleaved:act=silu:scale_b=f32"});
  check<finish(EpilogueKind::kFull, Activation::kNone, GateMode::kNone, DType::kNone)>(
      {"m=70:n=72:k=40:c=bf16",
       "m=70:n=71:k=40:d=f32:batch=2:c=f32:bias=f16:act=tanh:steps=mul.bf16+act.hardswish+add.f32",
       "m=40:n=70:k=40:layout=rcc:c=bf16.0.0.1:steps=act.clamp"});
  check<finish(EpilogueKind::kFull, Activation::kNone, GateMode::kSeparated, DType::kNone)>(
      {"m=70:n=90:k=40:gate=separated:act=sigmoid:c=bf16:steps=add.bf16"});
}

TEST(EmulatedGemmPortable, ASplitKAddsItsPartsInOrderWhateverTheWorkspaceHeld) {
  check<kBase>({"m=70:n=72:k=200", "m=70:n=72:k=200:batch=2"}, /*split_k=*/64);
  check<finish(EpilogueKind::kLinear, Activation::kSilu, GateMode::kSeparated, DType::kBf16)>(
      {"m=70:n=90:k=136:gate=separated:act=silu"}, /*split_k=*/32);
  check<bytes(DType::kI8, Major::kK)>({"m=20:n=40:k=400:a=i8:scale_a=f32"}, /*split_k=*/128);
  check<bytes(DType::kF8E4M3, Major::kK)>({"m=20:n=40:k=400:a=e4m3:scale_a=f32"}, /*split_k=*/128);
}

TEST(EmulatedGemmPortable, BandsOfTilesCoverDOnce) {
  check<kBase>({"m=300:n=200:k=32"}, 0, /*band=*/1);
  check<kBase>({"m=300:n=200:k=32"}, 0, /*band=*/3);
}

TEST(EmulatedGemmGeneric, EveryValidProblemRuns) {
  EmulatedCudaDevice device("sm_80");
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { gemm_generic_gpu(*static_cast<const GemmScaledArgs*>(args)); });
  for (const char* text :
       {"m=37:n=45:k=77", "m=37:n=45:k=77:a=f32:layout=crr:act=gelu", "m=37:n=45:k=77:a=f16:packed=1:bias=f32",
        "m=37:n=45:k=77:packed=1:batch=2", "m=37:n=45:k=77:a=i8:scale_a=f32", "m=37:n=45:k=77:a=i8:packed=1:batch=2",
        "m=37:n=46:k=77:a=f32:packed=1:gate=separated:act=silu",
        "m=37:n=46:k=77:gate=interleaved:act=silu:c=f32:steps=add.f32", "m=5:n=7:k=0:bias=f32", "m=1:n=1:k=1",
        "m=5:n=3:k=7:sa=0.100.3:sb=0.2.50:sd=0.9.2", "m=33:n=36:k=259:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
        "m=20:n=30:k=70:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=20:n=31:k=71:a=bf16:b=u4:scale_b=f16.1x32:zero_b=u4",
        "m=20:n=30:k=70:a=f16:b=i4:scale_b=bf16.1x64", "m=3:n=30:k=70:b=i8:packed=1:scale_b=f32.1x16:zero_b=i8.0.1.30",
        "m=37:n=85:k=300:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:batch=2"}) {
    const GemmProblem problem = problem_of(text);
    const std::vector<Candidate> found = gemm_generic_gpu_family().candidates(erase(problem), device.spec());
    ASSERT_EQ(found.size(), 1u);
    check_plan(device, problem, gemm_generic_gpu_family(), found.front().step, kernel);
  }
}

}  // namespace
}  // namespace tilewright
