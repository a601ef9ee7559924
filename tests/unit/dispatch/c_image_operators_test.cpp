// SPDX-License-Identifier: MIT
// Operators on images through the C ABI.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "tilewright/tilewright.h"

namespace {

static_assert(sizeof(tilewright_group_norm_call) == 64 && offsetof(tilewright_group_norm_call, groups) == 40);
static_assert(offsetof(tilewright_group_norm_call, recipe) == 56);

TEST(CGroupNorm, NormalisesPreparesQueriesExplainsAndRefuses) {
  float x[2][4] = {{1, 3, 5, 7}, {2, 2, 2, 2}}, out[2][4] = {};
  const float weight[4] = {1, 1, 2, 2};
  int64_t shape[3] = {1, 4, 2}, channels[1] = {4};
  const TwDLTensor in{x, {1, 0}, 3, {2, 32, 1}, shape, nullptr, 0}, to{out, {1, 0}, 3, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor by{const_cast<float*>(weight), {1, 0}, 1, {2, 32, 1}, channels, nullptr, 0};
  tilewright_group_norm_call call = tilewright_group_norm_call_defaults();
  call.x = &in, call.out = &to, call.weight = &by, call.groups = 2, call.eps = 0;
  ASSERT_EQ(tilewright_group_norm_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  call.eps = 1e-5f;
  ASSERT_EQ(tilewright_group_norm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(out[0][0], -1.341640f, 1e-5f);  // of 1, 3, 5 and 7
  EXPECT_NEAR(out[0][2], 0.447213f, 1e-5f);
  EXPECT_EQ(out[1][3], 0);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_group_norm_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_group_norm_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.activation = 99;
  EXPECT_EQ(tilewright_group_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "group_norm: argument 'activation' is 99, allowed: 0 to 8");
  EXPECT_EQ(tilewright_group_norm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_group_norm_backward_call) == 88);
static_assert(offsetof(tilewright_group_norm_backward_call, groups) == 64);
static_assert(offsetof(tilewright_group_norm_backward_call, recipe) == 80);

TEST(CGroupNormBackward, FindsGradientsPreparesQueriesExplainsAndRefuses) {
  float x[2][4] = {{1, 3, 5, 7}, {2, 2, 2, 2}}, dy[2][4] = {{1, 0, 0, 0}, {1, 2, 3, 4}}, dx[2][4] = {}, dbias[4] = {};
  int64_t shape[3] = {1, 4, 2}, channels[1] = {4};
  const auto image = [&shape](float* data) { return TwDLTensor{data, {1, 0}, 3, {2, 32, 1}, shape, nullptr, 0}; };
  const TwDLTensor in = image(x[0]), of = image(dy[0]), to = image(dx[0]);
  const TwDLTensor sums{dbias, {1, 0}, 1, {2, 32, 1}, channels, nullptr, 0};
  tilewright_group_norm_backward_call call = tilewright_group_norm_backward_call_defaults();
  call.x = &in, call.dy = &of, call.dx = &to, call.dbias = &sums, call.groups = 2;
  ASSERT_EQ(tilewright_group_norm_backward_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_group_norm_backward(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(dx[0][0], 0.134164f, 1e-4f);  // (1 - 1/4 - 9/20) / sqrt(5)
  EXPECT_EQ(dbias[0], 1);
  EXPECT_EQ(dbias[3], 7);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_group_norm_backward_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_group_norm_backward_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.dy = nullptr;
  EXPECT_EQ(tilewright_group_norm_backward(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "group_norm_backward: argument 'dy' is missing");
  EXPECT_EQ(tilewright_group_norm_backward(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

}  // namespace
