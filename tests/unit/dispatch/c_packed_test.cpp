// SPDX-License-Identifier: MIT
// Weights that the C ABI packs are on a CPU: a call reads their header there.
#include <gtest/gtest.h>

#include "tilewright/tilewright.h"

namespace tilewright {
namespace {

TEST(CPackedWeights, OnlyWeightsOnACpuArePacked) {
  int64_t shape[2] = {4, 4}, strides[2] = {4, 1};
  float data[16] = {};
  TwDLTensor b{};
  b.data = data;
  b.device = {TW_DL_CUDA, 0};
  b.ndim = 2;
  b.dtype = {TW_DL_FLOAT, 32, 1};
  b.shape = shape;
  b.strides = strides;
  EXPECT_EQ(tilewright_gemm_pack_weights(nullptr, &b, data, sizeof(data)), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_last_error(), "tilewright_gemm_pack_weights: argument 'b' is on cuda:0, allowed: cpu");
}

}  // namespace
}  // namespace tilewright
