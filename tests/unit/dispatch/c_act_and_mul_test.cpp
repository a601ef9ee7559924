// SPDX-License-Identifier: MIT
// act_and_mul through the C ABI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "tilewright/tilewright.h"

namespace {

static_assert(sizeof(tilewright_act_and_mul_call) == 80 && offsetof(tilewright_act_and_mul_call, x) == 8);
static_assert(offsetof(tilewright_act_and_mul_call, activation) == 40 &&
              offsetof(tilewright_act_and_mul_call, recipe) == 64);

TEST(CActAndMul, ActivatesQueriesExplainsAndRefuses) {
  float x[2][4] = {{1, 2, 3, 4}, {-1, 1, -1, 1}}, y[2][2] = {};
  int64_t shape[2] = {2, 4}, half[2] = {2, 2};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out{y, {1, 0}, 2, {2, 32, 1}, half, nullptr, 0};
  tilewright_act_and_mul_call call = tilewright_act_and_mul_call_defaults();
  EXPECT_EQ(tilewright_act_and_mul(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.x = &in, call.out = &out;
  ASSERT_EQ(tilewright_act_and_mul_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_act_and_mul(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(y[0][1], 4 * 2 / (1 + std::exp(-2.0)), 1e-5);
  EXPECT_NEAR(y[1][0], 1 / (1 + std::exp(1.0)), 1e-5);
  call.activation = TILEWRIGHT_ACTIVATION_RELU, call.squared = 1, call.gate = TILEWRIGHT_GATE_INTERLEAVED;
  ASSERT_EQ(tilewright_act_and_mul(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(y[0][1], 3 * 3 * 4);
  EXPECT_EQ(y[1][0], 0);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_act_and_mul_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_act_and_mul_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  EXPECT_EQ(tilewright_act_and_mul_explain(nullptr, &call, nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.gate = 3;
  EXPECT_EQ(tilewright_act_and_mul(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "act_and_mul: argument 'gate' is 3, allowed: 0 to 2");
  EXPECT_EQ(tilewright_act_and_mul(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

}  // namespace
