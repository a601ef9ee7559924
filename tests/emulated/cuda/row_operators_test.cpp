// SPDX-License-Identifier: MIT
// Kernels of row operators, the source that NVRTC compiles, on the host: rows of every length through the family's own stages.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "act_and_mul/act_and_mul_gpu.cuh"
#include "cross_entropy/cross_entropy_gpu.cuh"
#include "dequantize/dequantize_gpu.cuh"
#include "elementwise/elementwise_gpu.cuh"
#include "gated_rms_norm/gated_rms_norm_gpu.cuh"
#include "kv_cache/cache_move_gpu.cuh"
#include "kv_cache/kv_cache_write_gpu.cuh"
#include "layer_norm/layer_norm_gpu.cuh"
#include "quantize/quantize_gpu.cuh"
#include "rms_norm/rms_norm_gpu.cuh"
#include "rope/rope_gpu.cuh"
#include "sample/sample_gpu.cuh"
#include "softmax/softmax_gpu.cuh"

#include "core/fields.hpp"
#include "ops/op_list.hpp"
#include "ops/row/problem/row_problem.hpp"

namespace tilewright {
namespace {

using emulated::check_family, emulated::check_rows, emulated::HostKernel;

template <RowGpuConfig kConfig>
void check_rms_norm(std::initializer_list<const char*> problems) {
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { rms_norm_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(rms_norm_operator(), kConfig, kernel, problems);
}
template <RowGpuConfig kConfig>
void check_layer_norm(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { layer_norm_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(layer_norm_operator(), kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_act_and_mul(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { act_and_mul_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(act_and_mul_operator(), kConfig, kernel, problems);
}
template <RowGpuConfig kConfig>
void check_quantize(std::initializer_list<const char*> problems) {
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { quantize_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(quantize_operator(), kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_dequantize(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { dequantize_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(dequantize_operator(), kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_rope(std::initializer_list<const char*> problems) {
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { rope_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(rope_operator(), kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_softmax(std::initializer_list<const char*> problems) {
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { softmax_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(softmax_operator(), kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_cross_entropy(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { cross_entropy_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(cross_entropy_operator(), kConfig, kernel, problems);
}

template <CacheGpuConfig kConfig>
void check_cache(const Operator& op, std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { kv_cache_write_gpu<kConfig>(*static_cast<const CacheArgs*>(args)); });
  check_rows(op, kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_gated_norm(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { gated_rms_norm_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(gated_rms_norm_operator(), kConfig, kernel, problems);
}

template <RowGpuConfig kConfig>
void check_elementwise(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { elementwise_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(elementwise_operator(), kConfig, kernel, problems);
}

template <CacheMoveGpuConfig kConfig>
void check_move(const Operator& op, std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { cache_move_gpu<kConfig>(*static_cast<const CacheMoveArgs*>(args)); });
  check_rows(op, kConfig, kernel, problems);
}

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF32 = DType::kF32, kF16 = DType::kF16;

TEST(EmulatedRowOperators, RmsNormKeepsRowsOrReadsThemAgain) {
  check_rms_norm<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 64, 2}>(
      {"m=5:n=1024:x=bf16:residual=bf16:weight=bf16", "m=9:n=1001:x=bf16:residual=bf16",
       "m=1:n=1:x=bf16:residual=bf16"});
  check_rms_norm<RowGpuConfig{kF16, kNone, kF32, Quantisation::kNone, 16, 1}>(
      {"m=33:n=128:x=f16:out=f32:weight=f32:bias=f16", "m=3:n=100:x=f16:out=f32"});
  check_rms_norm<RowGpuConfig{kF32, kF32, kF32, Quantisation::kNone, 256, 0}>(
      {"m=2:n=5003:x=f32:residual=f32:weight=f32", "m=2:n=5000:x=f32:residual=f32:residual_out=0"});
}

TEST(EmulatedRowOperators, RmsNormQuantises) {
  check_rms_norm<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kGroup, 64, 2}>(
      {"m=5:n=1000:x=bf16:out=e4m3:quant=group", "m=2:n=96:x=bf16:out=e4m3:quant=group:scale=e8m0"});
  check_rms_norm<RowGpuConfig{kBf16, kNone, DType::kI8, Quantisation::kRow, 128, 0}>(
      {"m=3:n=3001:x=bf16:out=i8:quant=row:smooth=f32"});
  check_rms_norm<RowGpuConfig{kBf16, kNone, DType::kF4E2M1, Quantisation::kGroup, 32, 4, kBf16, false, 32}>(
      {"m=3:n=901:x=bf16:out=e2m1:quant=group:scale=e8m0"});
  check_rms_norm<RowGpuConfig{kBf16, kNone, DType::kF8E5M2, Quantisation::kTensor, 32, 1}>(
      {"m=3:n=201:x=bf16:out=e5m2:quant=tensor"});
}

TEST(EmulatedRowOperators, TheKernelTypedAtRunTimeServesEveryType) {
  check_rms_norm<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=3:n=301:x=f32:residual=bf16:weight=f16:out=f16", "m=3:n=301:x=f16:out=e4m3fnuz:quant=group:group=64",
       "m=3:n=2100:x=bf16:out=i8:quant=row", "m=2:n=77:x=bf16:out=e2m1:quant=group:scale=e8m0:rounding=even"});
}

TEST(EmulatedRowOperators, LayerNormKeepsRowsOrReadsThemAgain) {
  check_layer_norm<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 64, 2}>(
      {"m=5:n=1024:x=bf16:residual=bf16:weight=bf16:bias=bf16", "m=9:n=1001:x=bf16:residual=bf16",
       "m=1:n=1:x=bf16:residual=bf16"});
  check_layer_norm<RowGpuConfig{kF16, kNone, kF32, Quantisation::kNone, 16, 1}>(
      {"m=33:n=128:x=f16:out=f32:weight=f32:bias=f16", "m=3:n=100:x=f16:out=f32"});
  check_layer_norm<RowGpuConfig{kF32, kF32, kF32, Quantisation::kNone, 256, 0}>(
      {"m=2:n=5003:x=f32:residual=f32:weight=f32", "m=2:n=5000:x=f32:residual=f32:residual_out=0"});
  check_layer_norm<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kGroup, 64, 2}>(
      {"m=5:n=1000:x=bf16:out=e4m3:quant=group"});
  check_layer_norm<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=3:n=301:x=f32:residual=bf16:weight=f16:out=f16", "m=3:n=2100:x=bf16:out=i8:quant=row"});
}

TEST(EmulatedRowOperators, ActAndMulKeepsRowsOrReadsThemAgain) {
  check_act_and_mul<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 64, 2}>(
      {"m=5:n=1024:x=bf16:gate=separated:activation=silu", "m=9:n=1001:x=bf16:gate=interleaved:activation=silu",
       "m=5:n=1000:x=bf16:activation=relu:squared=1", "m=1:n=1:x=bf16:gate=interleaved:activation=gelu"});
  check_act_and_mul<RowGpuConfig{kF32, kNone, kF32, Quantisation::kNone, 256, 0}>(
      {"m=2:n=5003:x=f32:gate=separated:activation=gelu", "m=2:n=5003:x=f32:gate=separated:activation=gelu_tanh",
       "m=2:n=300:x=f32:gate=interleaved:activation=sigmoid", "m=2:n=301:x=f32:activation=tanh",
       "m=2:n=301:x=f32:gate=separated:activation=hardswish", "m=2:n=301:x=f32:gate=separated"});
  check_act_and_mul<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kGroup, 64, 2}>(
      {"m=5:n=1000:x=bf16:out=e4m3:quant=group:gate=separated:activation=silu"});
  check_act_and_mul<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=3:n=301:x=f32:out=f16:gate=separated:activation=sigmoid",
       "m=3:n=2100:x=bf16:out=i8:quant=row:gate=interleaved:activation=silu"});
}

TEST(EmulatedRowOperators, RopeTurnsHeads) {
  check_rope<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 16, 2}>(
      {"m=2x3x5:n=128:x=bf16:residual=bf16:heads=4", "m=3x7x5:n=130:x=bf16:residual=bf16:heads=2:interleaved=1",
       "m=1x9x2:n=80:x=bf16:residual=bf16:heads=1:dims=64:positions=1:table=bf16"});
  check_rope<RowGpuConfig{kF32, kNone, kF32, Quantisation::kNone, 256, 0}>(
      {"m=1x3x2:n=5003:x=f32:dims=5002", "m=2x1x1:n=2:x=f32:inverse=1"});
  check_rope<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=2x3x5:n=70:x=f16:residual=f16:heads=2:dims=50:positions=1", "m=1x3x2:n=34:x=f32:interleaved=1"});
}

TEST(EmulatedRowOperators, RopeTakesSectionsPositionsAndPackedSequences) {
  check_rope<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 8, 2, kF32, true}>(
      {"m=2x3x6:n=128:x=bf16:residual=bf16:heads=4:sections=16.24.24",
       "m=1x9x4:n=128:x=bf16:residual=bf16:heads=2:sections=24.20.20:order=interleaved:interleaved=1",
       "m=1x9x4:n=128:x=bf16:residual=bf16:heads=2:sections=32.16.16:order=parts",
       "m=1x37x4:n=128:x=bf16:residual=bf16:heads=2:sequences=4:offsets=1"});
  check_rope<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 8, 2, kF32, true, 0, 1, 1, true}>(
      {"m=2x3x6:n=128:x=bf16:residual=bf16:heads=4:positions=1:inverse=1",
       "m=1x37x4:n=128:x=bf16:residual=bf16:heads=2:sequences=4:offsets=1",
       "m=3x7x4:n=128:x=bf16:residual=bf16:heads=2:sx=4000.520.256"});
  check_rope<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=2x3x5:n=70:x=f16:residual=f16:heads=2:sections=9.9.9.8:order=interleaved",
       "m=1x3x2:n=130:x=f32:sections=33.1.31:order=parts", "m=1x3x2:n=34:x=f32:sequences=2:interleaved=1"});
}

TEST(EmulatedRowOperators, QuantizeHasTheReferencesCodes) {
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kDynamic, 64, 2}>(
      {"m=37:n=1000:x=bf16:out=e4m3:quant=dynamic", "m=1:n=1:x=bf16:out=e4m3:quant=dynamic",
       "m=0:n=9:x=bf16:out=e4m3:quant=dynamic"});
  check_quantize<RowGpuConfig{kF32, kNone, DType::kI8, Quantisation::kDynamic, 256, 0}>(
      {"m=3:n=5003:x=f32:out=i8:quant=dynamic:smooth=f32"});
  check_quantize<RowGpuConfig{kF16, kNone, DType::kI8, Quantisation::kRow, 16, 1}>(
      {"m=33:n=128:x=f16:out=i8:quant=row"});
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF4E2M1, Quantisation::kGroup, 32, 4}>(
      {"m=3:n=901:x=bf16:out=e2m1:quant=group:scale=e8m0:rounding=ceil",
       "m=4:n=256:x=bf16:out=e2m1:quant=group:ss=0.0.1.4"});
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF4E2M1, Quantisation::kGroup, 32, 2, kBf16, true, 16}>(
      {"m=37:n=504:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
       "m=3:n=504:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given:smooth=bf16",
       "m=3:n=512:x=bf16:out=e2m1:quant=group:scale=e4m3"});
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kBlock, 16, 8}>(
      {"m=2x130:n=133:x=bf16:out=e4m3:quant=block", "m=1:n=1:x=bf16:out=e4m3:quant=block",
       "m=0:n=9:x=bf16:out=e4m3:quant=block", "m=3:n=300:x=bf16:out=e4m3:quant=block:scale=e8m0:smooth=f32"});
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kBlock, 16, 8, kBf16, true, 128}>(
      {"m=300:n=392:x=bf16:out=e4m3:quant=block:ss=0.0.1.3", "m=257:n=64:x=bf16:out=e4m3:quant=block:smooth=bf16"});
  check_quantize<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=130:n=140:x=f16:out=e2m1:quant=block", "m=9:n=41:x=f16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
       "m=3:n=301:x=f32:out=e5m2:quant=tensor", "m=9:n=2100:x=bf16:out=e4m3fnuz:quant=dynamic",
       "m=2:n=77:x=bf16:out=e2m1:quant=group:scale=e8m0:rounding=even"});
}

TEST(EmulatedRowOperators, DequantizeHasTheReferencesBits) {
  check_dequantize<RowGpuConfig{DType::kF8E4M3, kNone, kBf16, Quantisation::kTensor, 64, 2}>(
      {"m=37:n=1000:x=e4m3:out=bf16:quant=tensor", "m=1:n=1:x=e4m3:out=bf16:quant=tensor",
       "m=0:n=9:x=e4m3:out=bf16:quant=tensor", "m=3:n=0:x=e4m3:out=bf16:quant=tensor"});
  check_dequantize<RowGpuConfig{DType::kF8E4M3, kNone, kBf16, Quantisation::kGroup, 16, 4, kNone, true, 128}>(
      {"m=37:n=512:x=e4m3:out=bf16:quant=group", "m=3:n=376:x=e4m3:out=bf16:quant=group"});
  check_dequantize<RowGpuConfig{DType::kF4E2M1, kNone, kF16, Quantisation::kGroup, 32, 4}>(
      {"m=3:n=901:x=e2m1:out=f16:quant=group:scale=e8m0", "m=4:n=256:x=e2m1:out=f16:quant=group:ss=0.0.1.4"});
  check_dequantize<RowGpuConfig{DType::kI8, kNone, kF32, Quantisation::kRow, 256, 0}>(
      {"m=3:n=5003:x=i8:out=f32", "m=2:n=4096:x=i8:out=f32:sx=0.0.5000"});
  check_dequantize<RowGpuConfig{DType::kF4E2M1, kNone, kBf16, Quantisation::kGroup, 32, 2, kNone, true, 16}>(
      {"m=37:n=504:x=e2m1:out=bf16:quant=group:scale=e4m3:tensor_scale=given"});
  check_dequantize<RowGpuConfig{DType::kF8E4M3, kNone, kBf16, Quantisation::kBlock, 16, 2, kNone, true, 128}>(
      {"m=2x130:n=136:x=e4m3:out=bf16:quant=block:ss=0.2.1.4"});
  check_dequantize<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=130:n=300:x=e2m1:quant=block:scale=e8m0", "m=3:n=301:x=e5m2:quant=tensor", "m=9:n=2100:x=e4m3fnuz:out=f16",
       "m=5:n=7:x=e5m2fnuz:out=bf16", "m=2:n=77:x=e2m1:quant=group:scale=e8m0"});
}

TEST(EmulatedRowOperators, SoftmaxKeepsRowsOrReadsThemTwice) {
  check_softmax<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 64, 2}>(
      {"m=5:n=1024:x=bf16", "m=9:n=1001:x=bf16:log=1", "m=1:n=1:x=bf16", "m=0:n=9:x=bf16"});
  check_softmax<RowGpuConfig{kF16, kNone, kF32, Quantisation::kNone, 16, 1}>(
      {"m=33:n=128:x=f16:out=f32", "m=3:n=100:x=f16:out=f32:log=1", "m=40:n=1:x=f16:out=f32:log=1"});
  check_softmax<RowGpuConfig{kF32, kNone, kF32, Quantisation::kNone, 256, 0}>(
      {"m=2:n=5003:x=f32", "m=2:n=5000:x=f32:log=1", "m=3:n=7:x=f32"});
  check_softmax<RowGpuConfig{kBf16, kNone, kF32, Quantisation::kNone, 1024, 0, kBf16, true}>(
      {"m=2:n=33000:x=bf16:out=f32", "m=1:n=32768:x=bf16:out=f32:log=1"});
  check_softmax<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=3:n=301:x=f32:out=f16", "m=3:n=2100:x=bf16:log=1"});
}

TEST(EmulatedRowOperators, CrossEntropyKeepsRowsOrReadsThemTwice) {
  check_cross_entropy<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 64, 2}>(
      {"m=5:n=1024:x=bf16", "m=9:n=1001:x=bf16:lse=1:factor=1", "m=1:n=1:x=bf16", "m=0:n=9:x=bf16"});
  check_cross_entropy<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 256, 1, kBf16, true}>(
      {"m=15:n=1992:x=bf16", "m=3x7:n=8:x=bf16:sx=0.160.16:starget=0.14.2"});
  check_cross_entropy<RowGpuConfig{kF16, kNone, kNone, Quantisation::kNone, 16, 1}>(
      {"m=33:n=128:x=f16:gradient=0", "m=3:n=100:x=f16:gradient=0:lse=1"});
  check_cross_entropy<RowGpuConfig{kF32, kNone, kF32, Quantisation::kNone, 256, 0}>(
      {"m=20:n=5003:x=f32", "m=2:n=5000:x=f32:lse=1", "m=3:n=7:x=f32"});
  check_cross_entropy<RowGpuConfig{kF32, kNone, kF32, Quantisation::kNone, 16, 0}>({"m=33:n=303:x=f32"});
  check_cross_entropy<RowGpuConfig{kBf16, kNone, kF32, Quantisation::kNone, 1024, 0, kBf16, true}>(
      {"m=2:n=33000:x=bf16:out=f32", "m=9:n=32768:x=bf16:out=f32:lse=1"});
  check_cross_entropy<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=9:n=301:x=f32:out=f16", "m=3:n=9100:x=bf16:gradient=0", "m=3:n=4100:x=f16:factor=1"});
}

template <SampleConfig kConfig>
void check_sample(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { sample_gpu<kConfig>(*static_cast<const SampleArgs*>(args)); });
  const Operator& op = sample_operator();
  const bool generic = kConfig.x == kNone;
  const KernelFamily& family = *find_family(op.families(), generic ? "sample_generic_gpu" : "sample_gpu");
  RecipeStep step;
  for (const KernelKey& key : family.builtin_keys("sm_90a")) {
    if (generic || key.config() == print_fields(kConfig)) step.key = key;
  }
  for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
    check_family(op, family, step, kernel, problems, data);
  }
}

TEST(EmulatedRowOperators, SampleChoosesAsTheReference) {
  check_sample<SampleConfig{kF32}>(
      {"b=3:v=9001:x=f32:temperature=1:top_k=1:top_p=1:min_p=1:log_probabilities=1", "b=7:v=300:x=f32:top_k=1:top_p=1",
       "b=7:v=300:x=f32:top_k=1:top_p=1:temperature=1:joint=top_k_first", "b=1:v=1:x=f32:top_p=1",
       "b=6:v=9001:x=f32:temperature=1:top_k=1", "b=9:v=40:x=f32:min_p=1:log_probabilities=1:ids=2",
       "b=2:v=17000:x=f32:greedy=1", "b=0:v=5:x=f32:greedy=1"});
  // More at the cut than a block gathers.
  check_sample<SampleConfig{kBf16}>({"b=1:v=262144:x=bf16:top_p=1:temperature=1"});
  check_sample<SampleConfig{kBf16}>(
      {"b=3:v=9001:x=bf16:top_p=1:temperature=1", "b=5:v=2049:x=bf16:sx=2050:seeds=1:offsets=2:temperature=1"});
  check_sample<SampleConfig{kNone}>({"b=3:v=333:x=f16:top_p=1:top_k=1", "b=3:v=333:x=f32:greedy=1"});
}

// Chunks of few rows have a block each, those of many rows one block: of the same rows with the same bits.
TEST(EmulatedRowOperators, BitsOfSoftmaxDoNotDependOnHowManyBlocksTakeARow) {
  static constexpr RowGpuConfig kConfig{kBf16, kNone, kF32, Quantisation::kNone, 256, 0, kBf16, true};
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { softmax_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  const Operator& op = softmax_operator();
  const KernelFamily& family = *find_family(op.families(), "softmax_gpu");
  const RecipeStep step{make_key(op.name(), family.name(), "sm_90a", "x=bf16", print_fields(kConfig)), {}};
  constexpr int64_t kRows = 3, kLength = 13000;
  const std::vector<std::byte> problem = *op.parse_problem(fmt::format("m={}:n={}:x=bf16:out=f32", kRows, kLength));
  emulated::EmulatedCudaDevice device("sm_90a");
  auto instance = *op.instantiate(problem, device, {});
  instance->fill(5, InputData::kNormal);
  std::vector<std::vector<float>> outputs;
  for (const int units : {1, 64}) {
    SCOPED_TRACE(units);
    DeviceSpec spec = device.spec();
    spec.units = units;
    Plan plan;
    plan.stages = *family.stages(problem, spec, step, kernel);
    EXPECT_EQ(plan.stages.size(), units == 1 ? 1u : 2u);
    plan.workspace_bytes = family.workspace_bytes(problem, spec, step);
    instance->poison();
    const CallBindings bindings = instance->bindings();
    ASSERT_TRUE(run_plan(device, plan, bindings, {}).ok());
    const VerifyReport report = instance->verify();
    EXPECT_TRUE(report.passed) << report.failure;
    const auto* const out = static_cast<const float*>(bindings.pointers[kRowOut]);
    outputs.emplace_back(out, out + kRows * kLength);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

// Nothing branches around their loads.
TEST(EmulatedRowOperators, WholeRowsAreAskedForAtOnceAndWalked) {
  check_rms_norm<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 256, 1, kBf16, true}>(
      {"m=15:n=1992:x=bf16:weight=bf16:bias=bf16", "m=3x7:n=8:x=bf16:sx=0.160.16",
       "m=5:n=2048:x=bf16:weight=bf16:smooth=bf16:unit_offset=1:round_before_weight=1"});
  check_rms_norm<RowGpuConfig{kF32, kF32, kF32, Quantisation::kNone, 16, 2, kF16, true}>(
      {"m=37:n=200:x=f32:residual=f32:weight=f16:bias=f16", "m=37:n=256:x=f32:residual=f32:residual_out=0"});
  check_rms_norm<RowGpuConfig{kF16, kF16, DType::kF8E4M3, Quantisation::kGroup, 64, 2, kF32, true}>(
      {"m=5:n=1000:x=f16:residual=f16:weight=f32:out=e4m3:quant=group"});
  check_layer_norm<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 256, 1, kBf16, true}>(
      {"m=15:n=1992:x=bf16:weight=bf16:bias=bf16"});
  check_softmax<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 256, 1, kBf16, true}>(
      {"m=15:n=1992:x=bf16", "m=3x7:n=8:x=bf16:sx=0.160.16:log=1"});
  check_act_and_mul<RowGpuConfig{kBf16, kNone, kBf16, Quantisation::kNone, 32, 2, kBf16, true}>(
      {"m=190:n=504:x=bf16:gate=separated:activation=silu", "m=190:n=512:x=bf16:gate=interleaved:activation=sigmoid",
       "m=190:n=512:x=bf16:activation=gelu", "m=9x7:n=8:x=bf16:gate=interleaved:activation=silu:sx=0.320.32"});
  check_act_and_mul<RowGpuConfig{kBf16, kNone, DType::kI8, Quantisation::kRow, 32, 2, kBf16, true}>(
      {"m=9:n=504:x=bf16:gate=separated:activation=silu:out=i8:quant=row",
       "m=9:n=512:x=bf16:gate=interleaved:activation=sigmoid:out=i8:quant=row"});
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kGroup, 16, 8, kBf16, true, 128}>(
      {"m=5:n=1024:x=bf16:out=e4m3:quant=group", "m=3:n=640:x=bf16:out=e4m3:quant=group:smooth=bf16"});
  check_quantize<RowGpuConfig{kBf16, kNone, DType::kF4E2M1, Quantisation::kGroup, 32, 4, kBf16, true}>(
      {"m=3:n=904:x=bf16:out=e2m1:quant=group:scale=e8m0"});
}

TEST(EmulatedRowOperators, KvCacheWriteStoresPiecesOrElements) {
  check_cache<CacheGpuConfig{kBf16, kNone, kBf16, kNone, kNone, false, false, 4, 4}>(
      kv_cache_write_operator(), {"t=37:k=4:n=64:x=bf16", "t=9:k=8:v=4:nv=48:n=64:x=bf16:vlayout=value_transposed",
                                  "t=9:k=4:n=64:x=bf16:klayout=key_packed:vlayout=value_packed:wide_slots=1"});
  check_cache<CacheGpuConfig{kBf16, kNone, kBf16, kNone, kNone, false, false, 4, 2, true}>(
      kv_cache_write_operator(),
      {"t=37:k=4:n=64:x=bf16", "t=9:k=4:n=64:x=bf16:klayout=key_packed:vlayout=nhd:wide_slots=1"});
  check_cache<CacheGpuConfig{kF32, kNone, DType::kF8E4M3, kNone, kNone, false, true, 64, 1}>(
      kv_cache_write_operator(), {"t=5:k=3:n=1024:x=f32:cache=e4m3:scales=token"});
  check_cache<CacheGpuConfig{kNone, kNone, kNone, kNone, kNone, false, false, 32, 1}>(
      kv_cache_write_operator(), {"t=20:k=2:n=77:nv=33:x=f16:cache=e5m2fnuz:block=3:wide_slots=1",
                                  "t=5:k=3:n=200:x=bf16:cache=i8:scales=token:klayout=hnd"});
}

TEST(EmulatedRowOperators, GatedRmsNormGatesBeforeOrBehindTheNorm) {
  check_gated_norm<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 32, 2, kBf16, true}>(
      {"m=12:n=512:x=bf16:residual=bf16:weight=bf16:weight_groups=4",
       "m=7:n=504:x=bf16:residual=bf16:weight=bf16:gate_first=1"});
  check_gated_norm<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=5:n=77:x=f16:residual=bf16:weight=f32:weight_groups=3",
       "m=2:n=3000:x=f32:residual=f32:gate_first=1:out=e4m3:quant=group"});
}

TEST(EmulatedRowOperators, ElementwiseCastsAddsAndMultiplies) {
  check_elementwise<RowGpuConfig{kBf16, kNone, DType::kF8E4M3, Quantisation::kNone, 32, 2, kBf16, true}>(
      {"m=300:n=512:x=bf16:out=e4m3"});
  check_elementwise<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 32, 2, kBf16, true}>(
      {"m=4x3:n=512:x=bf16:residual=bf16:arithmetic=add:sr=0.512.0"});
  check_elementwise<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=9:n=77:x=f32:residual=f16:arithmetic=mul:single=1", "m=3:n=2500:x=f16:out=i8"});
}

TEST(EmulatedRowOperators, MovesFromAPagedCacheTakePiecesOrElements) {
  check_move<CacheMoveGpuConfig{kNone, kNone, true}>(kv_cache_copy_operator(),
                                                     {"t=19:k=3:n=64:block=4:x=bf16", "t=5:n=4096:x=e4m3:wide=1"});
  check_move<CacheMoveGpuConfig{kNone, kNone, true}>(kv_cache_gather_operator(),
                                                     {"t=50:b=4:k=3:n=64:x=bf16:block=8:layout=key_packed"});
  // Rows of one piece, more of them than a block takes at a time, and of three, which no block's pieces are a multiple of.
  check_move<CacheMoveGpuConfig{kNone, kNone, true}>(
      kv_cache_copy_operator(), {"t=700:k=2:n=8:x=bf16:layout=hnd", "t=40:k=3:n=24:block=9:x=bf16:layout=hnd"});
  check_move<CacheMoveGpuConfig{DType::kF8E4M3, kBf16, true}>(
      kv_cache_gather_operator(),
      {"t=50:b=4:k=3:n=64:x=e4m3:out=bf16:block=8", "t=50:b=6:k=2:n=72:x=e4m3:out=bf16:scales=head:layout=hnd"});
  check_move<CacheMoveGpuConfig{kNone, kNone, false}>(
      kv_cache_gather_operator(), {"t=20:b=2:k=2:n=70:x=i8:out=f16:scales=token:layout=value_transposed"});
}

TEST(EmulatedRowOperators, QkNormRopeCacheNormalisesTurnsAndStores) {
  check_cache<CacheGpuConfig{kBf16, kBf16, kBf16, kF32, kBf16, true, false, 8, 4}>(
      qk_norm_rope_cache_operator(),
      {"t=19:q=8:k=4:n=128:x=bf16:weight=bf16:table=f32:positions=1",
       "t=7:q=4:k=4:n=80:x=bf16:weight=bf16:table=f32:dims=32:interleaved=1:unit_offset=1:klayout=hnd",
       "t=7:q=4:k=4:n=128:x=bf16:weight=bf16:table=f32:sections=16.24.24:wide_positions=1",
       "t=7:q=4:k=4:n=128:x=bf16:weight=bf16:table=f32:sections=24.20.20:order=interleaved"});
  check_cache<CacheGpuConfig{kBf16, kBf16, DType::kF8E4M3, kF32, kBf16, true, false, 8, 2, true}>(
      qk_norm_rope_cache_operator(),
      {"t=19:q=8:k=4:n=128:x=bf16:weight=bf16:table=f32:positions=1:cache=e4m3:scales=tensor",
       "t=7:q=4:k=2:n=80:x=bf16:weight=bf16:table=f32:dims=32:klayout=hnd:cache=e4m3:scales=head"});
  check_cache<CacheGpuConfig{kBf16, kBf16, kBf16, kF32, kBf16, true, false, 64, 4, true}>(
      qk_norm_rope_cache_operator(), {"t=3:q=8:k=4:n=1024:x=bf16:weight=bf16:table=f32"});
  check_cache<CacheGpuConfig{kF16, DType::kF8E4M3, DType::kI8, kF16, kNone, true, true, 4, 1}>(
      qk_norm_rope_cache_operator(),
      {"t=7:q=3:k=1:n=64:x=f16:norm=1:table=f16:cache=i8:scales=token:qo=e4m3:q_scales=head"});
  check_cache<CacheGpuConfig{kNone, kNone, kNone, kNone, kNone, false, false, 32, 1}>(
      qk_norm_rope_cache_operator(), {"t=9:q=3:k=1:n=77:x=f16:weight=f32:table=f32:dims=50:qo=i8:q_scales=token",
                                      "t=9:q=3:k=1:n=77:x=f16:table=f32:dims=50:sections=9.8.8:order=interleaved",
                                      "t=5:q=1:k=2:v=0:n=34:x=f32:table=bf16:interleaved=1:positions=1"});
}

}  // namespace
}  // namespace tilewright
