// SPDX-License-Identifier: MIT
// Norms through the C ABI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "tilewright/tilewright.h"

namespace {

static_assert(sizeof(tilewright_norm_call) == 96 && offsetof(tilewright_norm_call, x) == 8);
static_assert(offsetof(tilewright_norm_call, quant) == 72 && offsetof(tilewright_norm_call, recipe) == 88);

TEST(CRmsNorm, NormalisesQueriesExplainsAndRefuses) {
  float x[2][4] = {{1, 2, 3, 4}, {-1, 1, -1, 1}}, y[2][4] = {}, weight[4] = {1, 1, 2, 2};
  int64_t shape[2] = {2, 4}, length[1] = {4};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out{y, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor column{weight, {1, 0}, 1, {2, 32, 1}, length, nullptr, 0};
  tilewright_norm_call call = tilewright_rms_norm_call_defaults();
  EXPECT_EQ(tilewright_rms_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.x = &in, call.out = &out, call.weight = &column;
  ASSERT_EQ(tilewright_rms_norm_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_rms_norm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(y[0][3], 8 / std::sqrt(7.5), 1e-5);
  EXPECT_NEAR(y[1][2], -2, 1e-5);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_rms_norm_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_rms_norm_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  EXPECT_EQ(tilewright_rms_norm_explain(nullptr, &call, nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.quant = 4;
  EXPECT_EQ(tilewright_rms_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "rms_norm: argument 'quant' is 4, allowed: 0 to 3");
  EXPECT_EQ(tilewright_rms_norm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

TEST(CLayerNorm, NormalisesPreparesQueriesExplainsAndRefuses) {
  float x[2][4] = {{1, 2, 3, 4}, {5, 5, 5, 5}}, y[2][4] = {};
  int64_t shape[2] = {2, 4};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out{y, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  tilewright_norm_call call = tilewright_layer_norm_call_defaults();
  EXPECT_EQ(call.eps, 1e-5f);
  call.x = &in, call.out = &out;
  ASSERT_EQ(tilewright_layer_norm_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_layer_norm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(y[0][3], 1.5 / std::sqrt(1.25 + 1e-5), 1e-5);
  EXPECT_EQ(y[1][2], 0);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_layer_norm_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_layer_norm_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.quant = 4;
  EXPECT_EQ(tilewright_layer_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "layer_norm: argument 'quant' is 4, allowed: 0 to 3");
  EXPECT_EQ(tilewright_layer_norm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()).substr(0, 21), "tilewright_layer_norm");
}

}  // namespace
