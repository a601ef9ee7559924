// SPDX-License-Identifier: MIT
// Rows that a cluster of blocks shares, the source that NVRTC compiles, on the host: blocks run by turns.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "cross_entropy/cross_entropy_gpu.cuh"
#include "layer_norm/layer_norm_gpu.cuh"
#include "rms_norm/rms_norm_gpu.cuh"
#include "softmax/softmax_gpu.cuh"

namespace tilewright {
namespace {

using emulated::check_rows, emulated::HostKernel;

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF32 = DType::kF32, kF16 = DType::kF16;

template <RowGpuConfig kConfig, void (*kKernel)(const RowArgs&)>
void check(const Operator& op, std::initializer_list<const char*> problems) {
  const auto kernel =
      std::make_shared<HostKernel>([](const void* args) { kKernel(*static_cast<const RowArgs*>(args)); });
  check_rows(op, kConfig, kernel, problems);
}

// Of the same row, whoever takes its chunks.
TEST(EmulatedRowClusters, BitsOfSoftmaxDoNotDependOnHowManyBlocksOfAClusterTakeARow) {
  static constexpr RowGpuConfig kFour{kBf16, kNone, kF32, Quantisation::kNone, 512, 4, kBf16, true, 0, 4};
  static constexpr RowGpuConfig kTwo{kBf16, kNone, kF32, Quantisation::kNone, 512, 8, kBf16, true, 0, 2};
  const std::shared_ptr<HostKernel> kernels[] = {
      std::make_shared<HostKernel>([](const void* args) { softmax_gpu<kFour>(*static_cast<const RowArgs*>(args)); }),
      std::make_shared<HostKernel>([](const void* args) { softmax_gpu<kTwo>(*static_cast<const RowArgs*>(args)); })};
  const Operator& op = softmax_operator();
  const KernelFamily& family = *find_family(op.families(), "softmax_gpu");
  constexpr int64_t kRows = 2, kLength = 60000;
  const std::vector<std::byte> problem = *op.parse_problem(fmt::format("m={}:n={}:x=bf16:out=f32", kRows, kLength));
  emulated::EmulatedCudaDevice device("sm_90a");
  auto instance = *op.instantiate(problem, device, {});
  instance->fill(6, InputData::kNormal);
  std::vector<std::vector<float>> outputs;
  for (const bool two : {false, true}) {
    const RecipeStep step{
        make_key(op.name(), family.name(), "sm_90a", "x=bf16", two ? print_fields(kTwo) : print_fields(kFour)), {}};
    Plan plan;
    plan.stages = *family.stages(problem, device.spec(), step, kernels[two ? 1 : 0]);
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

// Blocks of a cluster find what they reduce together, several rows one after another.
TEST(EmulatedRowClusters, AClusterSharesALongRow) {
  static constexpr RowGpuConfig kTwo{kBf16, kNone, kBf16, Quantisation::kNone, 512, 4, kBf16, true, 0, 2};
  check<kTwo, softmax_gpu<kTwo>>(softmax_operator(), {"m=3:n=32768:x=bf16", "m=2x2:n=16392:x=bf16:log=1"});
  static constexpr RowGpuConfig kRest{kF32, kNone, kF32, Quantisation::kNone, 512, 4, kF32, false, 0, 4};
  check<kRest, softmax_gpu<kRest>>(softmax_operator(), {"m=2:n=40001:x=f32:log=1"});
  static constexpr RowGpuConfig kEight{kBf16, kNone, kBf16, Quantisation::kNone, 512, 4, kBf16, true, 0, 8};
  check<kEight, cross_entropy_gpu<kEight>>(cross_entropy_operator(), {"m=2:n=128256:x=bf16:lse=1"});
  static constexpr RowGpuConfig kChunks{kF32, kNone, kF32, Quantisation::kNone, 512, 8, kF32, true, 0, 2};
  check<kChunks, cross_entropy_gpu<kChunks>>(cross_entropy_operator(),
                                             {"m=3:n=40000:x=f32", "m=2:n=65528:x=f32:factor=1"});
  static constexpr RowGpuConfig kCodes{kBf16, kBf16, DType::kI8, Quantisation::kRow, 512, 8, kBf16, true, 0, 2};
  check<kCodes, rms_norm_gpu<kCodes>>(rms_norm_operator(),
                                      {"m=3:n=50000:x=bf16:residual=bf16:weight=bf16:out=i8:quant=row"});
  static constexpr RowGpuConfig kHalf{kF16, kNone, kF16, Quantisation::kNone, 512, 4, kF16, false, 0, 2};
  check<kHalf, layer_norm_gpu<kHalf>>(layer_norm_operator(), {"m=2:n=17001:x=f16:weight=f16:bias=f16"});
}

}  // namespace
}  // namespace tilewright
