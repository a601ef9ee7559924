// SPDX-License-Identifier: MIT
// Kernels whose type tells what a call has (RowGpuConfig's plain), and rows that several blocks take a part of, on the host.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "act_and_mul/act_and_mul_gpu.cuh"
#include "act_and_mul_backward/act_and_mul_backward_gpu.cuh"
#include "elementwise/elementwise_gpu.cuh"
#include "layer_norm/layer_norm_gpu.cuh"
#include "quantize/quantize_gpu.cuh"
#include "rms_norm/rms_norm_gpu.cuh"

#include <algorithm>
#include <vector>

#include "ops/op_list.hpp"

namespace tilewright {
namespace {

using emulated::check_row_kernel;

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF16 = DType::kF16, kF32 = DType::kF32;

constexpr RowGpuConfig plain(DType x, DType out, int threads, int pieces, bool whole, bool weight, bool bias) {
  RowGpuConfig c{x, kNone, out, Quantisation::kNone, threads, pieces, x, whole};
  c.plain = true, c.weight = weight, c.bias = bias;
  return c;
}
constexpr RowGpuConfig in_parts(DType x, int parts, Activation activation, GateMode gate) {
  RowGpuConfig c{x, kNone, x, Quantisation::kNone, 256, 1, x, true};
  c.parts = parts, c.plain = true, c.activation = activation, c.gate = gate;
  return c;
}

TEST(EmulatedPlainRows, NormsTakeTheWeightAndBiasOfTheirType) {
  static constexpr RowGpuConfig kBoth = plain(kBf16, kBf16, 64, 2, true, true, true);
  check_row_kernel<kBoth, rms_norm_gpu<kBoth>>(
      rms_norm_operator(), {"m=5:n=1024:x=bf16:weight=bf16:bias=bf16", "m=1:n=8:x=bf16:weight=bf16:bias=bf16"});
  check_row_kernel<kBoth, layer_norm_gpu<kBoth>>(
      layer_norm_operator(), {"m=5:n=1024:x=bf16:weight=bf16:bias=bf16", "m=9:n=1000:x=bf16:weight=bf16:bias=bf16"});
  static constexpr RowGpuConfig kWeight = plain(kF32, kF32, 512, 1, true, true, false);
  check_row_kernel<kWeight, rms_norm_gpu<kWeight>>(rms_norm_operator(),
                                                   {"m=3:n=4096:x=f32:weight=f32", "m=0:n=64:x=f32:weight=f32"});
  check_row_kernel<kWeight, layer_norm_gpu<kWeight>>(layer_norm_operator(), {"m=3:n=4096:x=f32:weight=f32"});
  static constexpr RowGpuConfig kNeither = plain(kF16, kF16, 16, 1, true, false, false);
  check_row_kernel<kNeither, rms_norm_gpu<kNeither>>(rms_norm_operator(), {"m=33:n=128:x=f16", "m=3:n=104:x=f16"});
  check_row_kernel<kNeither, layer_norm_gpu<kNeither>>(layer_norm_operator(), {"m=33:n=128:x=f16", "m=3:n=104:x=f16"});
}

// What layer_norm promises of rows of equal elements, and of means far above the deviation.
TEST(EmulatedPlainRows, MomentsOfEqualElementsAreTheirValueAndNoDifference) {
  for (const float value : {0.0f, 0.1f, -1234.567f, 3e18f, 1e-41f}) {
    Piece p;
    for (float& x : p.v) x = value;
    Moments all = piece_moments<true>(p, kRowPiece);
    for (int i = 2; i < 7; ++i) all = joined(all, piece_moments<true>(p, kRowPiece), 1.0f / static_cast<float>(i));
    all = joined(all, piece_moments<false>(p, 5));
    all = joined_alike(joined({0, 0, 0}, all), all);
    EXPECT_EQ(all.mean, value);
    EXPECT_EQ(all.squares, 0.0f) << value;
    EXPECT_EQ(all.count, 2 * (6 * kRowPiece + 5));
  }
}

TEST(EmulatedPlainRows, MomentsFarFromZeroKeepTheirVariance) {
  Moments all{0, 0, 0};
  double sum = 0, squares = 0;
  constexpr int kPieces = 100, kCount = kPieces * kRowPiece;
  std::vector<float> x(kCount);
  for (int i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = 1e4f + static_cast<float>(i * 37 % 101) * 0.25f;
  for (const float v : x) sum += v;
  for (const float v : x) squares += (v - sum / kCount) * (v - sum / kCount);
  for (int piece = 0; piece < kPieces; ++piece) {
    Piece p;
    std::copy_n(x.begin() + piece * kRowPiece, kRowPiece, p.v);
    all = joined(all, piece_moments<true>(p, kRowPiece));
  }
  // Each piece and each joining rounds the mean once; squares of differences hardly notice.
  EXPECT_NEAR(all.mean, sum / kCount, 2 * kPieces * all.mean * 0x1p-24);
  EXPECT_NEAR(all.squares, squares, squares * 1e-5);
}

TEST(EmulatedPlainRows, ARowWithARestIsPlainToo) {
  static constexpr RowGpuConfig kRest = plain(kF32, kF32, 64, 2, false, true, false);
  check_row_kernel<kRest, rms_norm_gpu<kRest>>(rms_norm_operator(),
                                               {"m=5:n=1001:x=f32:weight=f32", "m=2:n=1:x=f32:weight=f32"});
  check_row_kernel<kRest, layer_norm_gpu<kRest>>(layer_norm_operator(),
                                                 {"m=5:n=1001:x=f32:weight=f32", "m=2:n=1:x=f32:weight=f32"});
  static constexpr RowGpuConfig kAgain = plain(kBf16, kBf16, 256, 0, false, true, true);
  check_row_kernel<kAgain, layer_norm_gpu<kAgain>>(layer_norm_operator(), {"m=2:n=5003:x=bf16:weight=bf16:bias=bf16"});
}

TEST(EmulatedPlainRows, BlocksThatReduceNothingShareARow) {
  static constexpr RowGpuConfig kTwo = in_parts(kBf16, 2, Activation::kSilu, GateMode::kSeparated);
  check_row_kernel<kTwo, act_and_mul_gpu<kTwo>>(
      act_and_mul_operator(),
      {"m=5:n=4096:x=bf16:gate=separated:activation=silu", "m=3:n=2056:x=bf16:gate=separated:activation=silu"});
  static constexpr RowGpuConfig kPairs = in_parts(kBf16, 4, Activation::kGeluTanh, GateMode::kInterleaved);
  check_row_kernel<kPairs, act_and_mul_gpu<kPairs>>(act_and_mul_operator(),
                                                    {"m=3:n=8192:x=bf16:gate=interleaved:activation=gelu_tanh"});
  static constexpr RowGpuConfig kAlone = in_parts(kF32, 2, Activation::kSigmoid, GateMode::kNone);
  check_row_kernel<kAlone, act_and_mul_gpu<kAlone>>(act_and_mul_operator(), {"m=3:n=2304:x=f32:activation=sigmoid"});

  static constexpr RowGpuConfig kGradient = [] {
    RowGpuConfig c = in_parts(kBf16, 2, Activation::kSilu, GateMode::kSeparated);
    c.residual = kBf16;
    return c;
  }();
  check_row_kernel<kGradient, act_and_mul_backward_gpu<kGradient>>(
      act_and_mul_backward_operator(), {"m=3:n=4096:x=bf16:residual=bf16:gate=separated:activation=silu"});

  static constexpr RowGpuConfig kSum = [] {
    RowGpuConfig c = in_parts(kF16, 8, Activation::kNone, GateMode::kNone);
    c.residual = kF16;
    return c;
  }();
  check_row_kernel<kSum, elementwise_gpu<kSum>>(
      elementwise_operator(),
      {"m=2:n=16384:x=f16:residual=f16:arithmetic=add", "m=0:n=16384:x=f16:residual=f16:arithmetic=add",
       "m=3:n=14344:x=f16:residual=f16:arithmetic=mul"});

  static constexpr RowGpuConfig kCodes = [] {
    RowGpuConfig c = in_parts(kBf16, 2, Activation::kNone, GateMode::kNone);
    c.out = DType::kF8E4M3, c.quant = Quantisation::kGroup, c.group = 128;
    return c;
  }();
  check_row_kernel<kCodes, quantize_gpu<kCodes>>(
      quantize_operator(), {"m=3:n=4096:x=bf16:out=e4m3:quant=group", "m=3:n=2176:x=bf16:out=e4m3:quant=group"});
}

}  // namespace
}  // namespace tilewright
