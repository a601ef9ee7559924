// SPDX-License-Identifier: MIT
// Kernels of full rows and whole blocks (RowGpuConfig's full), which ask nowhere what is there, on the host: one row a block, several with some
// behind the last one, gradients, scales of every kind, floats of 32 bits whose halves neighbours swap.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "act_and_mul/act_and_mul_gpu.cuh"
#include "elementwise/elementwise_gpu.cuh"
#include "gated_rms_norm/gated_rms_norm_gpu.cuh"
#include "layer_norm/layer_norm_gpu.cuh"
#include "layer_norm_backward/layer_norm_backward_gpu.cuh"
#include "quantize/quantize_gpu.cuh"
#include "rms_norm/rms_norm_gpu.cuh"
#include "rms_norm_backward/rms_norm_backward_gpu.cuh"
#include "softmax/softmax_gpu.cuh"

#include "ops/op_list.hpp"

namespace tilewright {
namespace {

using emulated::check_row_kernel;

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF16 = DType::kF16, kF32 = DType::kF32;

constexpr RowGpuConfig full(DType x, DType out, int threads, int pieces, bool weight = false, bool bias = false) {
  RowGpuConfig c{x, kNone, out, Quantisation::kNone, threads, pieces, x, true};
  c.plain = true, c.weight = weight, c.bias = bias, c.full = true;
  return c;
}
constexpr RowGpuConfig with_residual(RowGpuConfig c, DType residual) {
  c.residual = residual;
  return c;
}
constexpr RowGpuConfig with_slots(RowGpuConfig c, DType residual) {
  c.residual = residual, c.slots = 4;
  return c;
}
constexpr RowGpuConfig with_scales(RowGpuConfig c, Quantisation quant, int group) {
  c.quant = quant, c.group = group;
  return c;
}

TEST(EmulatedFullRows, NormsOfOneRowABlockAndOfSeveral) {
  static constexpr RowGpuConfig kOne = full(kBf16, kBf16, 256, 2, true, true), kSeveral = full(kF16, kF16, 64, 4, true);
  check_row_kernel<kOne, rms_norm_gpu<kOne>>(rms_norm_operator(), {"m=3:n=4096:x=bf16:weight=bf16:bias=bf16"});
  check_row_kernel<kOne, layer_norm_gpu<kOne>>(layer_norm_operator(), {"m=3:n=4096:x=bf16:weight=bf16:bias=bf16"});
  check_row_kernel<kSeveral, rms_norm_gpu<kSeveral>>(rms_norm_operator(),
                                                     {"m=7:n=2048:x=f16:weight=f16", "m=0:n=2048:x=f16:weight=f16"});
  check_row_kernel<kSeveral, layer_norm_gpu<kSeveral>>(layer_norm_operator(),
                                                       {"m=7:n=2048:x=f16:weight=f16", "m=1:n=2048:x=f16:weight=f16"});
  static constexpr RowGpuConfig kSum = with_residual(full(kBf16, kBf16, 128, 1, true), kBf16);
  check_row_kernel<kSum, rms_norm_gpu<kSum>>(
      rms_norm_operator(),
      {"m=5:n=1024:x=bf16:residual=bf16:weight=bf16", "m=5:n=1024:x=bf16:residual=bf16:residual_out=0:weight=bf16"});
}

TEST(EmulatedFullRows, FloatsOf32BitsAreWrittenByNeighboursTogether) {
  static constexpr RowGpuConfig kF = full(kF32, kF32, 32, 2, true), kFew = full(kF32, kF32, 16, 1),
                                kWide = full(kBf16, kF32, 64, 1);
  check_row_kernel<kF, rms_norm_gpu<kF>>(rms_norm_operator(), {"m=13:n=512:x=f32:weight=f32"});
  check_row_kernel<kF, layer_norm_gpu<kF>>(layer_norm_operator(), {"m=13:n=512:x=f32:weight=f32"});
  check_row_kernel<kFew, softmax_gpu<kFew>>(softmax_operator(), {"m=33:n=128:x=f32", "m=2:n=128:x=f32:log=1"});
  check_row_kernel<kWide, softmax_gpu<kWide>>(softmax_operator(), {"m=9:n=512:x=bf16:out=f32"});
  static constexpr RowGpuConfig kAdd = with_residual(full(kF32, kF32, 16, 2, true), kF32);
  check_row_kernel<kAdd, rms_norm_gpu<kAdd>>(rms_norm_operator(), {"m=35:n=256:x=f32:residual=f32:weight=f32"});
  // Rows whose last pair of neighbours is half there.
  static constexpr RowGpuConfig kRest = [] {
    RowGpuConfig c = full(kF32, kF32, 16, 2, true);
    c.full = false;
    return c;
  }();
  check_row_kernel<kRest, rms_norm_gpu<kRest>>(
      rms_norm_operator(), {"m=17:n=8:x=f32:weight=f32", "m=9:n=136:x=f32:weight=f32", "m=3:n=248:x=f32:weight=f32"});
}

TEST(EmulatedFullRows, GradientsWaitForRowsInSlots) {
  static constexpr RowGpuConfig kOne = with_slots(full(kBf16, kBf16, 256, 1, true), kBf16),
                                kSeveral = with_slots(full(kF16, kF16, 64, 2, true), kF16),
                                kWarp = with_slots(full(kF16, kF16, 32, 1, true), kF16),
                                kWide = with_slots(full(kBf16, kF32, 64, 1, true), kBf16);
  constexpr const char* kRms[] = {"m=9:n=2048:x=bf16:residual=bf16:weight=bf16:dweight=bf16"};
  check_row_kernel<kOne, rms_norm_backward_gpu<kOne>>(
      rms_norm_backward_operator(), {kRms[0], "m=1:n=2048:x=bf16:residual=bf16:weight=bf16:dresidual=1:dweight=f32"});
  check_row_kernel<kOne, layer_norm_backward_gpu<kOne>>(
      layer_norm_backward_operator(), {"m=9:n=2048:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16"});
  check_row_kernel<kSeveral, rms_norm_backward_gpu<kSeveral>>(
      rms_norm_backward_operator(), {"m=22:n=1024:x=f16:residual=f16:weight=f16:dweight=f32"});
  check_row_kernel<kSeveral, layer_norm_backward_gpu<kSeveral>>(
      layer_norm_backward_operator(), {"m=22:n=1024:x=f16:residual=f16:weight=f16:dweight=f32:dbias=f32",
                                       "m=2:n=1024:x=f16:residual=f16:weight=f16:dresidual=1:dweight=f32",
                                       "m=0:n=1024:x=f16:residual=f16:weight=f16:dweight=f32"});
  // No warp meets another one.
  check_row_kernel<kWarp, rms_norm_backward_gpu<kWarp>>(rms_norm_backward_operator(),
                                                        {"m=70:n=256:x=f16:residual=f16:weight=f16:dweight=f32"});
  check_row_kernel<kWarp, layer_norm_backward_gpu<kWarp>>(
      layer_norm_backward_operator(), {"m=70:n=256:x=f16:residual=f16:weight=f16:dweight=f32:dbias=f32"});
  // What is added, of 32 bits, has no slots.
  check_row_kernel<kWide, layer_norm_backward_gpu<kWide>>(
      layer_norm_backward_operator(), {"m=22:n=512:x=bf16:residual=bf16:weight=bf16:out=f32:dresidual=1:dweight=f32"});
  // One dimension, but with strides; and options that few calls have.
  static constexpr RowGpuConfig kAny = [] {
    RowGpuConfig c = with_slots(full(kBf16, kBf16, 64, 1), kBf16);
    c.plain = c.weight = false;
    return c;
  }();
  check_row_kernel<kAny, rms_norm_backward_gpu<kAny>>(
      rms_norm_backward_operator(), {"m=22:n=512:x=bf16:residual=bf16:weight=bf16:unit_offset=1:dweight=f32"});
}

TEST(EmulatedFullRows, GradientsWithoutSlotsAreReducedAtOnce) {
  static constexpr RowGpuConfig kOne = with_residual(full(kF32, kF32, 64, 1, true), kF32),
                                kSeven = with_residual(full(kBf16, kBf16, 224, 1, true), kBf16);
  check_row_kernel<kOne, rms_norm_backward_gpu<kOne>>(rms_norm_backward_operator(),
                                                      {"m=22:n=512:x=f32:residual=f32:weight=f32:dweight=f32"});
  check_row_kernel<kOne, layer_norm_backward_gpu<kOne>>(
      layer_norm_backward_operator(), {"m=22:n=512:x=f32:residual=f32:weight=f32:dweight=f32:dbias=f32"});
  check_row_kernel<kSeven, layer_norm_backward_gpu<kSeven>>(
      layer_norm_backward_operator(), {"m=5:n=1792:x=bf16:residual=bf16:weight=bf16:dresidual=1:dweight=f32"});
}

TEST(EmulatedFullRows, WarpsOfARowAreNoPowerOfTwo) {
  static constexpr RowGpuConfig kSeven = full(kBf16, kBf16, 224, 1, true, true), kThree = full(kF16, kF16, 96, 2, true);
  constexpr const char* kMean[] = {"m=3:n=1792:x=bf16:weight=bf16:bias=bf16"};
  check_row_kernel<kSeven, rms_norm_gpu<kSeven>>(rms_norm_operator(), {kMean[0]});
  check_row_kernel<kSeven, layer_norm_gpu<kSeven>>(layer_norm_operator(), {kMean[0]});
  check_row_kernel<kThree, rms_norm_gpu<kThree>>(rms_norm_operator(), {"m=5:n=1536:x=f16:weight=f16"});  // 2 a block
  check_row_kernel<kThree, layer_norm_gpu<kThree>>(layer_norm_operator(), {"m=5:n=1536:x=f16:weight=f16"});
  static constexpr RowGpuConfig kLong = full(kF32, kF32, 448, 2, true);
  check_row_kernel<kLong, layer_norm_gpu<kLong>>(layer_norm_operator(), {"m=2:n=7168:x=f32:weight=f32"});
  static constexpr RowGpuConfig kChances = full(kF32, kF32, 448, 2);
  check_row_kernel<kChances, softmax_gpu<kChances>>(softmax_operator(), {"m=2:n=7168:x=f32"});
  static constexpr RowGpuConfig kGradient = with_slots(full(kBf16, kBf16, 96, 1, true), kBf16),
                                kWide = with_slots(full(kBf16, kBf16, 320, 1, true), kBf16);
  check_row_kernel<kGradient, layer_norm_backward_gpu<kGradient>>(
      layer_norm_backward_operator(), {"m=11:n=768:x=bf16:residual=bf16:weight=bf16:dweight=f32:dbias=f32"});
  check_row_kernel<kWide, layer_norm_backward_gpu<kWide>>(
      layer_norm_backward_operator(), {"m=3:n=2560:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16"});
  check_row_kernel<kWide, rms_norm_backward_gpu<kWide>>(rms_norm_backward_operator(),
                                                        {"m=3:n=2560:x=bf16:residual=bf16:weight=bf16:dweight=bf16"});
  static constexpr RowGpuConfig kCodes = with_scales(full(kBf16, DType::kI8, 160, 1), Quantisation::kRow, 0),
                                kGroups = with_scales(full(kBf16, DType::kF8E4M3, 96, 1), Quantisation::kGroup, 128),
                                kFound = with_scales(full(kF16, DType::kF8E4M3, 96, 2), Quantisation::kDynamic, 0);
  check_row_kernel<kCodes, quantize_gpu<kCodes>>(quantize_operator(), {"m=4:n=1280:x=bf16:out=i8:quant=row"});
  check_row_kernel<kGroups, quantize_gpu<kGroups>>(quantize_operator(), {"m=5:n=768:x=bf16:out=e4m3:quant=group"});
  check_row_kernel<kFound, quantize_gpu<kFound>>(
      quantize_operator(), {"m=1:n=1536:x=f16:out=e4m3:quant=dynamic", "m=5:n=1536:x=f16:out=e4m3:quant=dynamic",
                            "m=9:n=1536:x=f16:out=e4m3:quant=dynamic"});
  // Rows that are not full.
  static constexpr RowGpuConfig kRest = [] {
    RowGpuConfig c = full(kBf16, kBf16, 352, 1, true);
    c.full = false;
    return c;
  }();
  check_row_kernel<kRest, layer_norm_gpu<kRest>>(layer_norm_operator(), {"m=2:n=2720:x=bf16:weight=bf16"});
}

TEST(EmulatedFullRows, ScalesOfEveryKindHaveTheReferencesCodes) {
  static constexpr RowGpuConfig kRow = with_scales(full(kBf16, DType::kI8, 128, 4), Quantisation::kRow, 0);
  check_row_kernel<kRow, quantize_gpu<kRow>>(quantize_operator(), {"m=5:n=4096:x=bf16:out=i8:quant=row"});
  static constexpr RowGpuConfig kGroup = with_scales(full(kBf16, DType::kF8E4M3, 64, 2), Quantisation::kGroup, 128);
  check_row_kernel<kGroup, quantize_gpu<kGroup>>(quantize_operator(), {"m=7:n=1024:x=bf16:out=e4m3:quant=group"});
  static constexpr RowGpuConfig kFour = with_scales(full(kBf16, DType::kF4E2M1, 64, 4), Quantisation::kGroup, 16);
  check_row_kernel<kFour, quantize_gpu<kFour>>(
      quantize_operator(), {"m=7:n=2048:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
                            "m=33:n=2048:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
                            "m=7:n=2048:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given",
                            "m=7:n=2048:so=0.0.2056:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given"});
  static constexpr RowGpuConfig kPower = with_scales(full(kBf16, DType::kF4E2M1, 64, 4), Quantisation::kGroup, 32);
  check_row_kernel<kPower, quantize_gpu<kPower>>(quantize_operator(),
                                                 {"m=7:n=2048:x=bf16:out=e2m1:quant=group:scale=e8m0",
                                                  "m=3:n=2048:x=bf16:out=e2m1:quant=group:scale=e8m0:rounding=even",
                                                  "m=3:n=2048:x=bf16:out=e2m1:quant=group:scale=e8m0:rounding=up",
                                                  "m=2:n=2048:x=bf16:out=e2m1:quant=group:scale=f32:group=32"});
  static constexpr RowGpuConfig kPair = with_scales(full(kF16, DType::kF4E2M1, 256, 2), Quantisation::kGroup, 16);
  check_row_kernel<kPair, quantize_gpu<kPair>>(quantize_operator(),
                                               {"m=3:n=4096:x=f16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given",
                                                "m=2:n=4096:x=f16:out=e2m1:quant=group:scale=e8m0:group=16",
                                                "m=0:n=4096:x=f16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given"});
  static constexpr RowGpuConfig kNorm = with_scales(full(kBf16, DType::kI8, 128, 4, true), Quantisation::kRow, 0);
  check_row_kernel<kNorm, rms_norm_gpu<kNorm>>(rms_norm_operator(), {"m=3:n=4096:x=bf16:weight=bf16:out=i8:quant=row"});
  static constexpr RowGpuConfig kDynamic = with_scales(full(kF16, DType::kF8E5M2, 32, 2), Quantisation::kDynamic, 0);
  check_row_kernel<kDynamic, quantize_gpu<kDynamic>>(
      quantize_operator(), {"m=19:n=512:x=f16:out=e5m2:quant=dynamic", "m=67:n=512:x=f16:out=e5m2:quant=dynamic"});
  // By a cluster of eleven blocks.
  emulated::check_rows(quantize_operator(), kDynamic, std::make_shared<emulated::HostKernel>([](const void* args) {
                         quantize_gpu<kDynamic>(*static_cast<const RowArgs*>(args));
                       }),
                       {"m=83:n=512:x=f16:out=e5m2:quant=dynamic"}, kLargeClusterUnits);
}

TEST(EmulatedFullRows, PiecesSideBySideShareAScale) {
  static constexpr RowGpuConfig kAlone = with_scales(full(kBf16, DType::kF8E4M3, 64, 2), Quantisation::kGroup, 128);
  static_assert(has_pairs_of_pieces(kAlone));
  // Rows of codes that begin between two multiples of 16 bytes.
  check_row_kernel<kAlone, quantize_gpu<kAlone>>(
      quantize_operator(),
      {"m=7:n=1024:so=0.0.1032:x=bf16:out=e4m3:quant=group", "m=7:n=1024:x=bf16:out=e4m3:quant=group"});
  static constexpr RowGpuConfig kCodes = with_scales(full(kF16, DType::kF4E2M1, 64, 2, true), Quantisation::kGroup, 16);
  static_assert(has_pairs_of_pieces(kCodes));
  check_row_kernel<kCodes, rms_norm_gpu<kCodes>>(
      rms_norm_operator(),
      {"m=7:n=1024:x=f16:weight=f16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given",
       "m=7:n=1024:so=0.0.1032:x=f16:weight=f16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given"});
  static constexpr RowGpuConfig kSum =
      with_residual(with_scales(full(kBf16, DType::kI8, 64, 4, true), Quantisation::kGroup, 32), kBf16);
  check_row_kernel<kSum, rms_norm_gpu<kSum>>(
      rms_norm_operator(), {"m=5:n=2048:x=bf16:residual=bf16:weight=bf16:out=i8:quant=group:scale=f32:group=32"});
  // Rows whose last piece has no other one, and whose threads have none at all.
  static constexpr RowGpuConfig kRest = [] {
    RowGpuConfig c = with_scales(full(kBf16, DType::kF8E4M3, 64, 4), Quantisation::kGroup, 32);
    c.full = false;
    return c;
  }();
  check_row_kernel<kRest, quantize_gpu<kRest>>(
      quantize_operator(),
      {"m=6:n=1000:x=bf16:out=e4m3:quant=group:scale=e8m0", "m=5:n=8:x=bf16:out=e4m3:quant=group:scale=e8m0"});
}

TEST(EmulatedFullRows, WholeBlocksStayAsTheyLie) {
  static constexpr RowGpuConfig kBlock = with_scales(full(kBf16, DType::kF8E4M3, 16, 8), Quantisation::kBlock, 128);
  check_row_kernel<kBlock, quantize_gpu<kBlock>>(
      quantize_operator(),
      {"m=384:n=256:x=bf16:out=e4m3:quant=block", "m=128:n=128:x=bf16:out=e4m3:quant=block:scale=e8m0"});
  static constexpr RowGpuConfig kEnds = [] {
    RowGpuConfig c = with_scales(full(kBf16, DType::kI8, 16, 8), Quantisation::kBlock, 128);
    c.full = false;
    return c;
  }();
  check_row_kernel<kEnds, quantize_gpu<kEnds>>(
      quantize_operator(), {"m=200:n=264:x=bf16:out=i8:quant=block", "m=1:n=8:x=bf16:out=i8:quant=block"});
}

TEST(EmulatedFullRows, BlocksOfFewRowsHaveFewTurns) {
  static constexpr RowGpuConfig kOne = with_scales(full(kBf16, DType::kF8E4M3, 16, 1), Quantisation::kBlock, 128);
  check_row_kernel<kOne, quantize_gpu<kOne>>(quantize_operator(), {"m=16:n=256:x=bf16:out=e4m3:quant=block"});
  static constexpr RowGpuConfig kTwo = with_scales(full(kBf16, DType::kI8, 16, 2), Quantisation::kBlock, 128);
  check_row_kernel<kTwo, quantize_gpu<kTwo>>(quantize_operator(), {"m=32:n=384:x=bf16:out=i8:quant=block"});
  static constexpr RowGpuConfig kFour = [] {
    RowGpuConfig c = with_scales(full(kF16, DType::kF8E5M2, 16, 4), Quantisation::kBlock, 128);
    c.full = c.plain = false;
    return c;
  }();
  check_row_kernel<kFour, quantize_gpu<kFour>>(
      quantize_operator(), {"m=33:n=264:x=f16:out=e5m2:quant=block", "m=2x40:n=264:x=f16:out=e5m2:quant=block",
                            "m=64:n=136:x=f16:out=e5m2:quant=block"});
}

TEST(EmulatedFullRows, GatesAndPartsOfARow) {
  static constexpr RowGpuConfig kParts = [] {
    RowGpuConfig c = full(kBf16, kBf16, 256, 1);
    c.parts = 2, c.activation = Activation::kSilu, c.gate = GateMode::kSeparated;
    return c;
  }();
  check_row_kernel<kParts, act_and_mul_gpu<kParts>>(act_and_mul_operator(),
                                                    {"m=5:n=4096:x=bf16:gate=separated:activation=silu"});
  static constexpr RowGpuConfig kThirds = [] {
    RowGpuConfig c = full(kBf16, kBf16, 224, 1);
    c.parts = 3, c.activation = Activation::kSilu, c.gate = GateMode::kSeparated;
    return c;
  }();
  check_row_kernel<kThirds, act_and_mul_gpu<kThirds>>(act_and_mul_operator(),
                                                      {"m=5:n=5376:x=bf16:gate=separated:activation=silu"});
  static constexpr RowGpuConfig kCodes = [] {
    RowGpuConfig c = with_scales(full(kBf16, DType::kF8E4M3, 64, 2), Quantisation::kGroup, 128);
    c.activation = Activation::kSilu, c.gate = GateMode::kInterleaved;
    return c;
  }();
  check_row_kernel<kCodes, act_and_mul_gpu<kCodes>>(
      act_and_mul_operator(), {"m=6:n=1024:x=bf16:out=e4m3:gate=interleaved:activation=silu:quant=group"});
  static constexpr RowGpuConfig kGated = with_residual(full(kBf16, kBf16, 64, 2, true), kBf16);
  check_row_kernel<kGated, gated_rms_norm_gpu<kGated>>(gated_rms_norm_operator(),
                                                       {"m=6:n=1024:x=bf16:residual=bf16:weight=bf16:gate_first=1"});
  static constexpr RowGpuConfig kSum = with_residual(full(kF32, kF32, 32, 1), kF32);
  check_row_kernel<kSum, elementwise_gpu<kSum>>(elementwise_operator(),
                                                {"m=11:n=256:x=f32:residual=f32:arithmetic=add"});
}

}  // namespace
}  // namespace tilewright
