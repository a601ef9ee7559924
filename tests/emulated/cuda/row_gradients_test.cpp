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

constexpr RowGpuConfig in_slots(RowGpuConfig c) {
  c.columns = c.x, c.whole = c.full = true, c.slots = 4;
  return c;
}

// Of both norms.
template <RowGpuConfig kConfig>
void check_norm_backward(std::initializer_list<const char*> problems, int units = 1) {
  const auto rms = std::make_shared<HostKernel>(
      [](const void* args) { rms_norm_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(rms_norm_backward_operator(), kConfig, rms, problems, units);
  const auto layer = std::make_shared<HostKernel>(
      [](const void* args) { layer_norm_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  check_rows(layer_norm_backward_operator(), kConfig, layer, problems, units);
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

// Rows in slots, of one piece a thread and of two, a block, several of them and a warp each: few by clusters of as many blocks as a row has warps, or half as many; more
// block by block.
TEST(EmulatedRowOperators, GradientsOfFullRowsAreRightTogetherAndBlockByBlock) {
  for (const int units : {1, kLargeClusterUnits}) {
    check_norm_backward<in_slots({kBf16, kBf16, kBf16, Quantisation::kNone, 512, 1})>(
        {"m=1:n=4096:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=f32",
         "m=16:n=4096:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dresidual=1",
         "m=32:n=4096:x=bf16:residual=bf16:dbias=bf16", "m=33:n=4096:x=bf16:residual=bf16:weight=bf16:dweight=f32"},
        units);
    check_norm_backward<in_slots({kF16, kF16, kF16, Quantisation::kNone, 448, 2})>(
        {"m=13:n=7168:x=f16:residual=f16:weight=f16:dweight=f16:dbias=f16:dresidual=1:unit_offset=1",
         "m=29:n=7168:x=f16:residual=f16:weight=f16:dweight=f16"},
        units);
    check_norm_backward<in_slots({kBf16, kF16, kF32, Quantisation::kNone, 64, 1})>(
        {"m=4:n=512:x=bf16:residual=f16:out=f32:weight=bf16:dweight=f32:dbias=f16:dresidual=1",
         "m=32:n=512:x=bf16:residual=f16:out=f32:weight=bf16:dweight=f32"},
        units);
  }
  check_norm_backward<in_slots({kBf16, kBf16, kBf16, Quantisation::kNone, 32, 2})>(
      {"m=5:n=512:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16"});
}

// x's gradient of so many rows of 4096, the first ones of x and their outputs' gradients those of `same` where it is given.
struct Gradients {
  std::vector<uint16_t> x, dy, weight, out;
};
Gradients gradients_of(const Operator& op, const std::shared_ptr<HostKernel>& kernel, const RowGpuConfig& config,
                       int64_t rows, int units, const Gradients* same) {
  constexpr int64_t kLength = 4096;
  const KernelFamily& family = *find_family(op.families(), fmt::format("{}_gpu", op.name()));
  const RecipeStep step{make_key(op.name(), family.name(), "sm_90a", "x=bf16", print_fields(config)), {}};
  emulated::EmulatedCudaDevice device("sm_90a");
  DeviceSpec spec = device.spec();
  spec.units = units;
  const std::vector<std::byte> problem =
      *op.parse_problem(fmt::format("m={}:n={}:x=bf16:residual=bf16:weight=bf16:dweight=f32", rows, kLength));
  auto instance = *op.instantiate(problem, device, {});
  instance->fill(1, InputData::kNormal);
  const CallBindings bindings = instance->bindings();
  const auto words = [&](int slot) { return static_cast<uint16_t*>(const_cast<void*>(bindings.pointers[slot])); };
  if (same != nullptr) {
    std::copy_n(same->x.begin(), rows * kLength, words(kRowX));
    std::copy_n(same->dy.begin(), rows * kLength, words(kRowResidual));
    std::copy_n(same->weight.begin(), kLength, words(kRowWeight));
  }
  Plan plan;
  plan.stages = *family.stages(problem, spec, step, kernel);
  EXPECT_EQ(plan.stages.size(), rows < 32 ? 1u : 2u);
  plan.workspace_bytes = family.workspace_bytes(problem, spec, step);
  EXPECT_TRUE(run_plan(device, plan, bindings, {}).ok());
  const auto read = [&](int slot, int64_t count) { return std::vector(words(slot), words(slot) + count); };
  return {read(kRowX, rows * kLength), read(kRowResidual, rows * kLength), read(kRowWeight, kLength),
          read(kRowOut, rows * kLength)};
}

// Alone in a launch, and beside so many others that blocks take whole rows.
TEST(EmulatedRowOperators, ARowsGradientHasTheSameBitsHoweverManyRowsThereAre) {
  static constexpr RowGpuConfig kConfig = in_slots({kBf16, kBf16, kBf16, Quantisation::kNone, 512, 1});
  const auto check = [](const Operator& op, const std::shared_ptr<HostKernel>& kernel) {
    const Gradients many = gradients_of(op, kernel, kConfig, 40, 1, nullptr);
    for (const int units : {1, kLargeClusterUnits}) {
      for (const int64_t rows : {1, 15}) {
        const Gradients few = gradients_of(op, kernel, kConfig, rows, units, &many);
        EXPECT_TRUE(std::equal(few.out.begin(), few.out.end(), many.out.begin())) << rows << " rows";
      }
    }
  };
  check(rms_norm_backward_operator(), std::make_shared<HostKernel>([](const void* args) {
          rms_norm_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args));
        }));
  check(layer_norm_backward_operator(), std::make_shared<HostKernel>([](const void* args) {
          layer_norm_backward_gpu<kConfig>(*static_cast<const RowArgs*>(args));
        }));
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
