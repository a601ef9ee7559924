// SPDX-License-Identifier: MIT
// Kernels of calls with programmatic edges on the host: what they fetch and rehearse before kernels in front have ended changes nothing.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "act_and_mul/act_and_mul_gpu.cuh"
#include "act_and_mul_backward/act_and_mul_backward_gpu.cuh"
#include "dequantize/dequantize_gpu.cuh"
#include "elementwise/elementwise_gpu.cuh"
#include "gated_rms_norm/gated_rms_norm_gpu.cuh"
#include "layer_norm/layer_norm_gpu.cuh"
#include "quantize/quantize_gpu.cuh"
#include "rms_norm/rms_norm_gpu.cuh"
#include "rms_norm_backward/rms_norm_backward_gpu.cuh"
#include "rope/rope_gpu.cuh"

#include "ops/op_list.hpp"

namespace tilewright {
namespace {

using emulated::check_row_kernel;

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF16 = DType::kF16, kF32 = DType::kF32;

constexpr RowGpuConfig edged(RowEdge edge, DType x, DType out, int threads, int pieces, bool weight = false,
                             bool bias = false, DType residual = kNone) {
  RowGpuConfig c{x, residual, out, Quantisation::kNone, threads, pieces, x, true};
  c.plain = true, c.weight = weight, c.bias = bias, c.full = true, c.edge = edge;
  return c;
}
constexpr RowGpuConfig with_scales(RowGpuConfig c, Quantisation quant, int group) {
  c.quant = quant, c.group = group;
  return c;
}

TEST(EmulatedRowEdges, NormsThatRunOnceForNothingWriteWhatTheyWriteOnce) {
  static constexpr RowEdge kTwice = RowEdge::kRehearse;
  static constexpr RowGpuConfig kOne = edged(kTwice, kBf16, kBf16, 256, 2, true, true),
                                kSeveral = edged(kTwice, kF16, kF16, 64, 4, true),
                                kSum = edged(kTwice, kBf16, kBf16, 128, 1, true, false, kBf16),
                                kFloats = edged(kTwice, kF32, kF32, 32, 2, true);
  check_row_kernel<kOne, rms_norm_gpu<kOne>>(rms_norm_operator(), {"m=3:n=4096:x=bf16:weight=bf16:bias=bf16"});
  check_row_kernel<kOne, layer_norm_gpu<kOne>>(layer_norm_operator(), {"m=3:n=4096:x=bf16:weight=bf16:bias=bf16"});
  // Rows of a block that are not there in either pass.
  check_row_kernel<kSeveral, rms_norm_gpu<kSeveral>>(rms_norm_operator(), {"m=7:n=2048:x=f16:weight=f16"});
  check_row_kernel<kFloats, layer_norm_gpu<kFloats>>(layer_norm_operator(), {"m=13:n=512:x=f32:weight=f32"});
  check_row_kernel<kSum, rms_norm_gpu<kSum>>(
      rms_norm_operator(),
      {"m=5:n=1024:x=bf16:residual=bf16:weight=bf16", "m=5:n=1024:x=bf16:residual=bf16:residual_out=0:weight=bf16"});
  check_row_kernel<kSum, gated_rms_norm_gpu<kSum>>(
      gated_rms_norm_operator(),
      {"m=6:n=1024:x=bf16:residual=bf16:weight=bf16:gate_first=1", "m=3:n=1024:x=bf16:residual=bf16:weight=bf16"});
}

TEST(EmulatedRowEdges, NormsThatRunOnceForNothingFindScalesOfWhatIsThere) {
  static constexpr RowGpuConfig kGroups = with_scales(
      edged(RowEdge::kRehearse, kBf16, DType::kF8E4M3, 128, 2, true, false, kBf16), Quantisation::kGroup, 128);
  check_row_kernel<kGroups, rms_norm_gpu<kGroups>>(
      rms_norm_operator(), {"m=5:n=2048:x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group"});
  static constexpr RowGpuConfig kRow =
      with_scales(edged(RowEdge::kRehearse, kBf16, DType::kI8, 128, 4, true), Quantisation::kRow, 0);
  check_row_kernel<kRow, rms_norm_gpu<kRow>>(rms_norm_operator(), {"m=3:n=4096:x=bf16:weight=bf16:out=i8:quant=row"});
  // Rows with a rest.
  static constexpr RowGpuConfig kRest = [] {
    RowGpuConfig c = edged(RowEdge::kRehearse, kBf16, kBf16, 64, 2, true, true);
    c.full = false;
    return c;
  }();
  check_row_kernel<kRest, layer_norm_gpu<kRest>>(
      layer_norm_operator(), {"m=5:n=776:x=bf16:weight=bf16:bias=bf16", "m=9:n=8:x=bf16:weight=bf16:bias=bf16"});
}

TEST(EmulatedRowEdges, WhatIsFetchedAheadIsTheSame) {
  static constexpr RowGpuConfig kGate = [] {
    RowGpuConfig c = edged(RowEdge::kFetch, kBf16, kBf16, 256, 1);
    c.parts = 2, c.activation = Activation::kSilu, c.gate = GateMode::kSeparated;
    return c;
  }();
  check_row_kernel<kGate, act_and_mul_gpu<kGate>>(act_and_mul_operator(),
                                                  {"m=5:n=4096:x=bf16:gate=separated:activation=silu"});
  static constexpr RowGpuConfig kSlope = [] {
    RowGpuConfig c = edged(RowEdge::kFetch, kBf16, kBf16, 128, 1, false, false, kBf16);
    c.activation = Activation::kSilu, c.gate = GateMode::kSeparated;
    return c;
  }();
  check_row_kernel<kSlope, act_and_mul_backward_gpu<kSlope>>(
      act_and_mul_backward_operator(), {"m=5:n=1024:x=bf16:residual=bf16:gate=separated:activation=silu"});
  static constexpr RowGpuConfig kSum = edged(RowEdge::kFetch, kF32, kF32, 32, 1, false, false, kF32);
  check_row_kernel<kSum, elementwise_gpu<kSum>>(elementwise_operator(),
                                                {"m=11:n=256:x=f32:residual=f32:arithmetic=add"});
  static constexpr RowGpuConfig kGroups =
      with_scales(edged(RowEdge::kFetch, kBf16, DType::kF4E2M1, 64, 4), Quantisation::kGroup, 16);
  check_row_kernel<kGroups, quantize_gpu<kGroups>>(
      quantize_operator(), {"m=7:n=2048:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given",
                            "m=7:n=2048:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found"});
  static constexpr RowGpuConfig kBlock =
      with_scales(edged(RowEdge::kFetch, kBf16, DType::kF8E4M3, 16, 8), Quantisation::kBlock, 128);
  check_row_kernel<kBlock, quantize_gpu<kBlock>>(quantize_operator(), {"m=256:n=256:x=bf16:out=e4m3:quant=block"});
  static constexpr RowGpuConfig kCodes = [] {
    RowGpuConfig c = with_scales(edged(RowEdge::kFetch, DType::kF8E4M3, kBf16, 64, 2), Quantisation::kGroup, 128);
    c.columns = kNone;
    return c;
  }();
  check_row_kernel<kCodes, dequantize_gpu<kCodes>>(dequantize_operator(),
                                                   {"m=7:n=1024:x=e4m3:out=bf16:quant=group:scale=f32:group=128"});
  static constexpr RowGpuConfig kGradient = [] {
    RowGpuConfig c = edged(RowEdge::kFetch, kBf16, kBf16, 128, 1, true, false, kBf16);
    c.slots = 4;
    return c;
  }();
  check_row_kernel<kGradient, rms_norm_backward_gpu<kGradient>>(
      rms_norm_backward_operator(), {"m=9:n=1024:x=bf16:residual=bf16:weight=bf16:dweight=bf16",
                                     "m=2:n=1024:x=bf16:residual=bf16:weight=bf16:dresidual=1:dweight=f32"});
  static constexpr RowGpuConfig kHeads = [] {
    RowGpuConfig c{kBf16, kBf16, kBf16, Quantisation::kNone, 8, 2, kF32, true};
    c.edge = RowEdge::kFetch;
    return c;
  }();
  check_row_kernel<kHeads, rope_gpu<kHeads>>(rope_operator(), {"m=2x5x6:n=128:x=bf16:residual=bf16:heads=4:positions=1",
                                                               "m=1x7x6:n=160:x=bf16:residual=bf16:heads=4:dims=128"});
}

}  // namespace
}  // namespace tilewright
