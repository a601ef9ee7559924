// SPDX-License-Identifier: MIT
// top_k's kernel, the source that NVRTC compiles, on the host: against the reference, and on rows whose best are hard to find.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "top_k/top_k_gpu.cuh"

#include "ops/top_k/problem/top_k_problem.hpp"
#include "support/ordered_rows.hpp"

namespace tilewright {
namespace {

using emulated::check_family, emulated::EmulatedCudaDevice, emulated::HostKernel;

// What runs a kernel for `kConfig`.
template <TopKGpuConfig kConfig>
struct TopKOnHost {
  static constexpr bool kGeneric = kConfig.x == DType::kNone;
  const KernelFamily& family = *find_family(top_k_operator().families(), kGeneric ? "top_k_generic_gpu" : "top_k_gpu");
  std::shared_ptr<HostKernel> kernel =
      std::make_shared<HostKernel>([](const void* args) { top_k_gpu<kConfig>(*static_cast<const TopKArgs*>(args)); });
  RecipeStep step;

  TopKOnHost() {
    for (const KernelKey& key : family.builtin_keys("sm_90a")) {
      const bool few = key.config().ends_with("few=1");
      if (few == kConfig.few && (kGeneric || key.config() == print_fields(kConfig))) step.key = key;
    }
  }
  void check(std::initializer_list<const char*> problems) const {
    for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
      check_family(top_k_operator(), family, step, kernel, problems, data);
    }
  }
};

constexpr bool kFew = true, kMany = false;

TEST(EmulatedTopK, ChoosesFewAsTheReference) {
  // Of several chunks and of one, fewer than are sought among them.
  TopKOnHost<TopKGpuConfig{DType::kF32, kFew}>().check(
      {"m=3:n=9001:k=50:x=f32", "m=1:n=1:k=3:x=f32", "m=2:n=0:k=5:x=f32", "m=0:n=5:k=5:x=f32", "m=2:n=17000:k=1:x=f32",
       "m=5:n=17000:k=128:x=f32:lengths=1", "m=2:n=8192:k=20:x=f32", "m=9:n=700:k=16:x=f32:lengths=1"});
  TopKOnHost<TopKGpuConfig{DType::kBf16, kFew}>().check(
      {"m=3:n=8193:k=33:x=bf16:sx=8200:si=40:values=0", "m=5:n=40:k=7:x=bf16:sv=9"});
  TopKOnHost<TopKGpuConfig{DType::kNone, kFew}>().check({"m=3:n=333:k=20:x=f16"});
}

TEST(EmulatedTopK, ChoosesManyAsTheReference) {
  // Of rows without a bound and with one, whose groups are a piece, a thread's two, or some threads'; rows of few of these chunks.
  TopKOnHost<TopKGpuConfig{DType::kF32, kMany}>().check(
      {"m=7:n=300:k=300:x=f32:lengths=1", "m=2:n=17000:k=2048:x=f32", "m=1:n=0:k=2048:x=f32", "m=0:n=5:k=500:x=f32",
       "m=2:n=33001:k=2048:x=f32", "m=3:n=40000:k=1500:x=f32:lengths=1", "m=2:n=70001:k=130:x=f32",
       "m=5:n=70001:k=900:x=f32:lengths=1", "m=1:n=300000:k=3:x=f32"});
  TopKOnHost<TopKGpuConfig{DType::kBf16, kMany}>().check(
      {"m=2:n=33001:k=1000:x=bf16:sx=33003:si=1004:values=0", "m=2:n=5000:k=2048:x=bf16:sv=2050"});
  TopKOnHost<TopKGpuConfig{DType::kNone, kMany}>().check({"m=2:n=20001:k=200:x=f16"});
}

template <TopKGpuConfig kConfig>
void expect_the_best_of_rows_of_every_order(std::initializer_list<std::pair<int, int>> sizes) {
  const TopKOnHost<kConfig> host;
  EmulatedCudaDevice device("sm_90a");
  for (int kind = 0; kind < test::kOrderedRows; ++kind) {
    for (const auto& [length, k] : sizes) {
      std::vector<float> row = test::ordered_row(kind, length);
      const std::vector<int> order = test::order_of_row(row);
      const auto problem = top_k_operator().parse_problem(fmt::format("m=1:n={}:k={}:x=f32:values=0", length, k));
      ASSERT_TRUE(problem.ok()) << problem.status().message();
      auto stages = host.family.stages(*problem, device.spec(), host.step, host.kernel);
      ASSERT_TRUE(stages.ok()) << stages.status().message();
      Plan plan;
      plan.stages = std::move(*stages);
      plan.workspace_bytes = host.family.workspace_bytes(*problem, device.spec(), host.step);
      std::vector<int> indices(static_cast<size_t>(k), -7);
      const std::vector<void*> bound = {row.data(), nullptr, nullptr, indices.data()};
      const CallBindings bindings{bound, {}, nullptr};
      const Status status = run_plan(device, plan, bindings, {});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(std::equal(indices.begin(), indices.end(), order.begin()))
          << "kind " << kind << ", length " << length << ", k " << k;
    }
  }
}

// Where warps name a value that too many reach, or none, all is counted.
TEST(EmulatedTopK, RowsOfEveryOrderGiveTheBestFew) {
  expect_the_best_of_rows_of_every_order<TopKGpuConfig{DType::kF32, kFew}>({{700, 1}, {700, 128}, {20011, 40}});
}

// Where bins of values are too full keys are sorted, and where more reach a row's bound than are listed whole rows are read.
TEST(EmulatedTopK, RowsOfEveryOrderGiveTheBestOfMany) {
  expect_the_best_of_rows_of_every_order<TopKGpuConfig{DType::kF32, kMany}>({{700, 300}, {20011, 600}, {40007, 2048}});
}

}  // namespace
}  // namespace tilewright
