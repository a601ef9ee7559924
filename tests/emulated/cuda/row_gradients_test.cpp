// SPDX-License-Identifier: MIT
// Kernels of gradients of row operators, the source that NVRTC compiles, on the host.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "act_and_mul_backward/act_and_mul_backward_gpu.cuh"
#include "layer_norm_backward/layer_norm_backward_gpu.cuh"
#include "rms_norm_backward/rms_norm_backward_gpu.cuh"

#include "ops/op_list.hpp"

namespace tilewright {
namespace {

using emulated::check_rows, emulated::HostKernel;

constexpr DType kBf16 = DType::kBf16, kF16 = DType::kF16, kF32 = DType::kF32, kNone = DType::kNone;

// Of both norms.
template <RowGpuConfig kConfig>
void check_norm_backward(std::initializer_list<const char*> problems) {
  const auto rms = std::make_shared<HostKernel>(
      [](const void* args) { rms_norm_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(rms_norm_backward_operator(), kConfig, rms, problems);
  const auto layer = std::make_shared<HostKernel>(
      [](const void* args) { layer_norm_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(layer_norm_backward_operator(), kConfig, layer, problems);
}
template <RowGpuConfig kConfig>
void check_act_and_mul_backward(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { act_and_mul_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(act_and_mul_backward_operator(), kConfig, kernel, problems);
}
TEST(EmulatedRowOperators, GradientsOfNormsSumColumnsOverTheirRows) {
  check_norm_backward<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 32, 2, kBf16, true}>(
      {"m=37:n=512:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=f32:dresidual=1",
       "m=3:n=504:x=bf16:residual=bf16", "m=0:n=64:x=bf16:residual=bf16:weight=bf16:dweight=bf16"});
  check_norm_backward<RowGpuConfig{kF32, kF32, kF32, Quantisation::kNone, 16, 2, kF32}>(
      {"m=41:n=77:x=f32:residual=f32:weight=f32:dweight=f32:unit_offset=1:dresidual=1"});
  check_norm_backward<RowGpuConfig{kF16, kBf16, kF16, Quantisation::kNone, 512, 0, kF32, true}>(
      {"m=5:n=9000:x=f16:residual=bf16:weight=f32:dweight=f16:dbias=f16:dresidual=1"});
  check_norm_backward<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=7:n=77:x=f16:residual=bf16:weight=f32:dweight=bf16", "m=5:n=3001:x=f32:residual=f32:dbias=f32:dresidual=1"});
}

TEST(EmulatedRowOperators, TheGradientOfActAndMulHasBothHalves) {
  check_act_and_mul_backward<RowGpuConfig{kBf16, kBf16, kBf16, Quantisation::kNone, 32, 2, kBf16, true}>(
      {"m=19:n=504:x=bf16:residual=bf16:gate=separated:activation=silu",
       "m=19:n=512:x=bf16:residual=bf16:gate=interleaved:activation=gelu",
       "m=9:n=512:x=bf16:residual=bf16:activation=relu:squared=1"});
  check_act_and_mul_backward<RowGpuConfig{kF32, kF16, kF32, Quantisation::kNone, 256, 2, kF32}>(
      {"m=3:n=2301:x=f32:residual=f16:gate=separated:activation=gelu_tanh",
       "m=3:n=77:x=f32:residual=f16:gate=interleaved:activation=tanh:squared=1"});
  check_act_and_mul_backward<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=9:n=77:x=f32:residual=f16:gate=interleaved:activation=sigmoid",
       "m=3:n=2500:x=f16:residual=bf16:gate=separated:activation=hardswish"});
}

}  // namespace
}  // namespace tilewright
