// SPDX-License-Identifier: MIT
// Kernels that change logits or where elements lie, the source that NVRTC compiles, on the host.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "apply_penalties/apply_penalties_gpu.cuh"
#include "transpose/transpose_gpu.cuh"

namespace tilewright {
namespace {

using emulated::check_family, emulated::check_rows, emulated::HostKernel;

constexpr DType kF32 = DType::kF32, kBf16 = DType::kBf16, kNone = DType::kNone;

template <ApplyPenaltiesConfig kConfig>
void check_penalties(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { apply_penalties_gpu<kConfig>(*static_cast<const ApplyPenaltiesArgs*>(args)); });
  check_rows(apply_penalties_operator(), kConfig, kernel, problems);
}

template <TransposeConfig kConfig>
void check_transpose(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { transpose_gpu<kConfig>(*static_cast<const TransposeArgs*>(args)); });
  const Operator& op = transpose_operator();
  const bool generic = kConfig.bytes == 0;
  const KernelFamily& family = *find_family(op.families(), generic ? "transpose_generic_gpu" : "transpose_gpu");
  RecipeStep step;
  step.key = generic ? family.builtin_keys("sm_90a").front()
                     : make_key(op.name(), family.name(), "sm_90a", fmt::format("bytes={}", kConfig.bytes),
                                print_fields(kConfig));
  check_family(op, family, step, kernel, problems);
}

TEST(EmulatedRowOperators, ApplyPenaltiesMatchesTheReference) {
  check_penalties<ApplyPenaltiesConfig{kF32}>(
      {"b=3:v=9000:x=f32:prompt=40:output=300:repetition=1:presence=1:frequency=1:in_place=1",
       "b=2:v=17:x=f32:prompt=4:repetition=1", "b=2:v=100:x=f32:output=30:sor=61:st=2:frequency=1"});
  check_penalties<ApplyPenaltiesConfig{kBf16}>(
      {"b=2:v=1003:x=bf16:output=30:output_counts=1:prompt_counts=1:frequency=1:repetition=1",
       "b=3:v=17000:x=bf16:output_counts=1:prompt_counts=1:presence=1:repetition=1:in_place=1",
       "b=2:v=8195:x=bf16:output_counts=1:soc=9001:frequency=1", "b=1:v=9000:x=bf16:prompt=3000:repetition=1"});
  check_penalties<ApplyPenaltiesConfig{kNone}>({"b=2:v=77:x=f16:prompt=5:output=9:repetition=1:presence=1"});
}

TEST(EmulatedRowOperators, TransposeKeepsEveryBit) {
  check_transpose<TransposeConfig{4}>({"b=2:m=36:n=72:x=f32", "m=4:n=4:x=f32", "b=3x2:m=36:n=8:x=f32:so=0.36.108.216"});
  check_transpose<TransposeConfig{2}>({"b=2:m=72:n=136:x=bf16", "m=64:n=64:x=f16"});
  check_transpose<TransposeConfig{1}>({"b=2:m=144:n=272:x=i8", "m=128:n=128:x=e4m3"});
  check_transpose<TransposeConfig{0}>({"b=2:m=33:n=70:x=bf16", "m=5:n=37:x=f32", "m=1:n=100:x=i8", "m=3:n=0:x=f32"});
}

}  // namespace
}  // namespace tilewright
