// SPDX-License-Identifier: MIT
// quantize's CUDA kernels on the host with blocks that rotate and codes rounded by chance: rows in registers and read again, groups,
// blocks, whole rows and rows with a rest.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "quantize/quantize_gpu.cuh"

#include "ops/op_list.hpp"

namespace tilewright {
namespace {

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF32 = DType::kF32;

constexpr RowGpuConfig turned(RowGpuConfig config, bool hadamard, bool chance) {
  config.hadamard = hadamard, config.chance = chance;
  return config;
}

template <RowGpuConfig kConfig>
void check_quantize(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<emulated::HostKernel>(
      [](const void* args) { quantize_gpu<kConfig>(*static_cast<const RowArgs*>(args)); });
  emulated::check_rows(quantize_operator(), kConfig, kernel, problems);
}

TEST(EmulatedQuantizeOptions, RotatedBlocksHaveTheReferencesCodes) {
  check_quantize<turned({kBf16, kNone, DType::kF8E4M3, Quantisation::kRow, 32, 2}, true, false)>(
      {"m=19:n=384:x=bf16:out=e4m3:quant=row:hadamard=128", "m=3:n=16:x=bf16:out=e4m3:quant=row:hadamard=16",
       "m=5:n=480:x=bf16:out=e4m3:quant=row:hadamard=32:smooth=f32"});
  check_quantize<turned({kF32, kNone, DType::kI8, Quantisation::kDynamic, 256, 0}, true, false)>(
      {"m=3:n=5056:x=f32:out=i8:quant=dynamic:hadamard=64"});
  check_quantize<turned({kBf16, kNone, DType::kF8E4M3, Quantisation::kGroup, 16, 4, kBf16, true, 128}, true, false)>(
      {"m=33:n=512:x=bf16:out=e4m3:quant=group:hadamard=128", "m=33:n=192:x=bf16:out=e4m3:quant=group:hadamard=16"});
  check_quantize<turned({kBf16, kNone, DType::kF8E4M3, Quantisation::kBlock, 16, 8, kBf16, true, 128}, true, false)>(
      {"m=257:n=320:x=bf16:out=e4m3:quant=block:hadamard=64", "m=3:n=16:x=bf16:out=e4m3:quant=block:hadamard=16"});
}

TEST(EmulatedQuantizeOptions, CodesByChanceAreTheReferences) {
  check_quantize<turned({kBf16, kNone, DType::kI8, Quantisation::kRow, 16, 1}, false, true)>(
      {"m=33:n=128:x=bf16:out=i8:quant=row:state_words=2", "m=2x3:n=101:x=bf16:out=i8:quant=row:state_words=2"});
  check_quantize<turned({kF32, kNone, DType::kF8E5M2Fnuz, Quantisation::kTensor, 256, 0}, false, true)>(
      {"m=3:n=5003:x=f32:out=e5m2fnuz:quant=tensor:state_words=2"});
  check_quantize<turned({kBf16, kNone, DType::kF8E4M3, Quantisation::kBlock, 16, 8}, false, true)>(
      {"m=2x130:n=133:x=bf16:out=e4m3:quant=block:state_words=2"});
}

TEST(EmulatedQuantizeOptions, BothTogetherAndTypedAtRunTime) {
  check_quantize<turned({kBf16, kNone, DType::kF4E2M1, Quantisation::kGroup, 32, 2, kBf16, true, 16}, true, true)>(
      {"m=37:n=512:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found:hadamard=16:state_words=2"});
  check_quantize<RowGpuConfig{kNone, kNone, kNone, Quantisation::kNone, 256, 0}>(
      {"m=9:n=320:x=bf16:out=e4m3:quant=group:hadamard=64:state_words=2",
       "m=129:n=144:x=f32:out=e2m1:quant=block:hadamard=16", "m=9:n=41:x=f32:out=e4m3fnuz:quant=dynamic:state_words=2",
       "m=3:n=2176:x=f32:out=i8:quant=row:hadamard=128"});
}

}  // namespace
}  // namespace tilewright
