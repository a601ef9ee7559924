// SPDX-License-Identifier: MIT
// Operators on rows through the C ABI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "tilewright/tilewright.h"

namespace {

static_assert(sizeof(tilewright_norm_call) == 104 && offsetof(tilewright_norm_call, x) == 8);
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
  call.quant = 6;
  EXPECT_EQ(tilewright_rms_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "rms_norm: argument 'quant' is 6, allowed: 0 to 5");
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
  call.quant = 6;
  EXPECT_EQ(tilewright_layer_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "layer_norm: argument 'quant' is 6, allowed: 0 to 5");
  EXPECT_EQ(tilewright_layer_norm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()).substr(0, 21), "tilewright_layer_norm");
}

static_assert(sizeof(tilewright_quantize_call) == 80 && offsetof(tilewright_quantize_call, x) == 8);

TEST(CQuantize, QuantisesPreparesQueriesExplainsAndRefuses) {
  float x[2][4] = {{1, 2, 3, 254}, {-1, 1, -127, 1}}, scale[1] = {};
  signed char codes[2][4] = {};
  int64_t shape[2] = {2, 4}, one[1] = {1};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out{codes, {1, 0}, 2, {0, 8, 1}, shape, nullptr, 0};
  const TwDLTensor found{scale, {1, 0}, 1, {2, 32, 1}, one, nullptr, 0};
  tilewright_quantize_call call = tilewright_quantize_call_defaults();
  call.x = &in, call.out = &out, call.scale = &found;
  call.quant = TILEWRIGHT_QUANT_DYNAMIC;
  ASSERT_EQ(tilewright_quantize_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_quantize(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(scale[0], 2);
  EXPECT_EQ(codes[0][3], 127);
  EXPECT_EQ(codes[0][2], 2);
  EXPECT_EQ(codes[1][2], -64);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_quantize_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_quantize_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.quant = -1;
  EXPECT_EQ(tilewright_quantize(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "quantize: argument 'quant' is -1, allowed: 0 to 5");
  EXPECT_EQ(tilewright_quantize(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

TEST(CQuantize, BlocksRotateAndAStateRoundsByChance) {
  float x[16] = {4, 4}, scale[1] = {1};
  signed char codes[16] = {};
  int64_t shape[2] = {1, 16}, one[1] = {1}, two[1] = {2}, state[2] = {5, 0};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out{codes, {1, 0}, 2, {0, 8, 1}, shape, nullptr, 0};
  const TwDLTensor given{scale, {1, 0}, 1, {2, 32, 1}, one, nullptr, 0},
      random{state, {1, 0}, 1, {0, 64, 1}, two, nullptr, 0};
  tilewright_quantize_call call = tilewright_quantize_call_defaults();
  call.x = &in, call.out = &out, call.scale = &given, call.quant = TILEWRIGHT_QUANT_TENSOR, call.hadamard = 16;
  ASSERT_EQ(tilewright_quantize(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  for (int i = 0; i < 16; ++i) EXPECT_EQ(codes[i], i % 2 == 0 ? 2 : 0);  // 4 and 4 or -4, over 4
  scale[0] = 4, call.random_state = &random;
  ASSERT_EQ(tilewright_quantize(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  int ones = 0;
  for (int i = 0; i < 16; i += 2) ones += codes[i];
  EXPECT_GT(ones, 0);  // of eight halves
  EXPECT_LT(ones, 8);
  call.hadamard = 12;
  EXPECT_EQ(tilewright_quantize(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "quantize: argument 'hadamard' is 12, allowed: 0, 16, 32, 64, 128");
}

TEST(CQuantize, ScalesInTwoLevelsGoThereAndBack) {
  float x[16] = {5376, -2688, 896}, back[16] = {}, of_tensor[1] = {};
  unsigned char codes[8] = {}, scale[1] = {};
  int64_t shape[2] = {1, 16}, one[1] = {1}, group[2] = {1, 1};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0},
      out{codes, {1, 0}, 2, {17, 4, 1}, shape, nullptr, 0};
  const TwDLTensor scales{scale, {1, 0}, 2, {10, 8, 1}, group, nullptr, 0};
  const TwDLTensor found{of_tensor, {1, 0}, 1, {2, 32, 1}, one, nullptr, 0};
  const TwDLTensor y{back, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  tilewright_quantize_call call = tilewright_quantize_call_defaults();
  call.x = &in, call.out = &out, call.scale = &scales, call.quant = TILEWRIGHT_QUANT_GROUP;
  call.tensor_scale = &found, call.find_tensor_scale = 1;
  ASSERT_EQ(tilewright_quantize(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(of_tensor[0], 2);
  EXPECT_EQ(scale[0], 0x7E);  // 448
  tilewright_dequantize_call there = tilewright_dequantize_call_defaults();
  there.x = &out, there.out = &y, there.scale = &scales, there.quant = TILEWRIGHT_QUANT_GROUP;
  there.tensor_scale = &found;
  ASSERT_EQ(tilewright_dequantize(nullptr, &there, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(back[0], 5376);
  EXPECT_EQ(back[1], -2688);
  EXPECT_EQ(back[2], 896);
  EXPECT_EQ(back[3], 0);
}

static_assert(sizeof(tilewright_dequantize_call) == 56 && offsetof(tilewright_dequantize_call, x) == 8);

TEST(CDequantize, WidensPreparesQueriesExplainsAndRefuses) {
  signed char codes[2][4] = {{1, 2, 3, 127}, {-1, 1, -128, 0}};
  float y[2][4] = {}, scale[2] = {2, 0.5f};
  int64_t shape[2] = {2, 4}, rows[1] = {2};
  const TwDLTensor in{codes, {1, 0}, 2, {0, 8, 1}, shape, nullptr, 0}, out{y, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor given{scale, {1, 0}, 1, {2, 32, 1}, rows, nullptr, 0};
  tilewright_dequantize_call call = tilewright_dequantize_call_defaults();
  call.x = &in, call.out = &out, call.scale = &given;
  ASSERT_EQ(tilewright_dequantize_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_dequantize(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(y[0][3], 254);
  EXPECT_EQ(y[1][2], -64);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_dequantize_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_dequantize_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.quant = TILEWRIGHT_QUANT_DYNAMIC;
  EXPECT_EQ(tilewright_dequantize(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_dequantize(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_softmax_call) == 40 && offsetof(tilewright_softmax_call, x) == 8);
static_assert(offsetof(tilewright_softmax_call, log) == 24 && offsetof(tilewright_softmax_call, recipe) == 32);

TEST(CSoftmax, WeighsPreparesQueriesExplainsAndRefuses) {
  float x[2][2] = {{0, 1}, {3, 3}}, y[2][2] = {};
  int64_t shape[2] = {2, 2};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out{y, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  tilewright_softmax_call call = tilewright_softmax_call_defaults();
  call.x = &in, call.out = &out;
  ASSERT_EQ(tilewright_softmax_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_softmax(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(y[0][1], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(y[1][0], 0.5f);
  call.log = 1, call.scale = 2;
  ASSERT_EQ(tilewright_softmax(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(y[0][0], -2 - std::log(1 + std::exp(-2.0)), 1e-6);
  EXPECT_NEAR(y[1][1], -std::log(2.0), 1e-6);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_softmax_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_softmax_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.scale = INFINITY;
  EXPECT_EQ(tilewright_softmax(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "softmax: argument 'scale' is inf, allowed: up to 2^126");
  EXPECT_EQ(tilewright_softmax(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_cross_entropy_call) == 80 && offsetof(tilewright_cross_entropy_call, x) == 8);
static_assert(offsetof(tilewright_cross_entropy_call, label_smoothing) == 56 &&
              offsetof(tilewright_cross_entropy_call, recipe) == 72);

TEST(CCrossEntropy, LosesPreparesQueriesExplainsAndRefuses) {
  float x[2][2] = {{0, 1}, {3, 3}}, loss[2] = {};
  int32_t targets[2] = {1, -100};
  int64_t shape[2] = {2, 2};
  const TwDLTensor logits{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor target{targets, {1, 0}, 1, {0, 32, 1}, shape, nullptr, 0};
  const TwDLTensor losses{loss, {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  tilewright_cross_entropy_call call = tilewright_cross_entropy_call_defaults();
  call.x = &logits, call.target = &target, call.loss = &losses;
  ASSERT_EQ(tilewright_cross_entropy_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_cross_entropy(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(loss[0], std::log(1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(loss[1], 0);
  call.out = &logits, call.grad_scale = 2;
  ASSERT_EQ(tilewright_cross_entropy(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(x[0][0], 2 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(x[1][1], 0);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_cross_entropy_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_cross_entropy_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.z_loss = -1;
  EXPECT_EQ(tilewright_cross_entropy(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "cross_entropy: argument 'z_loss' is -1, allowed: 0 and above");
  EXPECT_EQ(tilewright_cross_entropy(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_moe_routing_call) == 96 && offsetof(tilewright_moe_routing_call, logits) == 8);
static_assert(offsetof(tilewright_moe_routing_call, score) == 40 &&
              offsetof(tilewright_moe_routing_call, recipe) == 88);

TEST(CMoeRouting, ChoosesPreparesQueriesExplainsAndRefuses) {
  float logits[2][4] = {{0, 3, 1, 2}, {5, 5, 5, 5}}, bias[4] = {0, -9, 0, 0}, weights[2][2] = {};
  int32_t ids[2][2] = {};
  int64_t shape[2] = {2, 4}, chosen[2] = {2, 2}, experts[1] = {4};
  const TwDLTensor in{logits, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor b{bias, {1, 0}, 1, {2, 32, 1}, experts, nullptr, 0};
  const TwDLTensor w{weights, {1, 0}, 2, {2, 32, 1}, chosen, nullptr, 0};
  const TwDLTensor i{ids, {1, 0}, 2, {0, 32, 1}, chosen, nullptr, 0};
  tilewright_moe_routing_call call = tilewright_moe_routing_call_defaults();
  call.logits = &in, call.weights = &w, call.ids = &i, call.renormalise = 1;
  ASSERT_EQ(tilewright_moe_routing_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_moe_routing(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(ids[0][0], 1);
  EXPECT_EQ(ids[0][1], 3);
  EXPECT_EQ(ids[1][1], 1);
  EXPECT_NEAR(weights[0][0], 1 / (1 + std::exp(-1.0)), 1e-6);
  call.bias = &b, call.score = TILEWRIGHT_ROUTER_SIGMOID, call.renormalise = 0, call.scale = 2;
  call.first_expert = 2, call.local_experts = 2;
  ASSERT_EQ(tilewright_moe_routing(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(ids[0][0], 1);
  EXPECT_EQ(ids[0][1], 0);
  EXPECT_NEAR(weights[0][0], 2 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(ids[1][0], -1);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_moe_routing_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_moe_routing_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.score = 3;
  EXPECT_EQ(tilewright_moe_routing(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "moe_routing: argument 'score' is 3, allowed: 0 to 2");
  EXPECT_EQ(tilewright_moe_routing(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_top_k_call) == 48 && offsetof(tilewright_top_k_call, recipe) == 40);

TEST(CTopK, ChoosesPreparesQueriesExplainsAndRefuses) {
  float x[2][4] = {{0, 3, 1, 2}, {5, 5, 5, 6}}, values[2][2] = {};
  int32_t indices[2][2] = {}, lengths[2] = {4, 1};
  int64_t shape[2] = {2, 4}, best[2] = {2, 2}, rows[1] = {2};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor v{values, {1, 0}, 2, {2, 32, 1}, best, nullptr, 0};
  const TwDLTensor i{indices, {1, 0}, 2, {0, 32, 1}, best, nullptr, 0};
  const TwDLTensor l{lengths, {1, 0}, 1, {0, 32, 1}, rows, nullptr, 0};
  tilewright_top_k_call call = tilewright_top_k_call_defaults();
  call.x = &in, call.values = &v, call.indices = &i, call.lengths = &l;
  ASSERT_EQ(tilewright_top_k_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_top_k(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(indices[0][0], 1);
  EXPECT_EQ(values[0][1], 2);
  EXPECT_EQ(indices[1][0], 0);
  EXPECT_EQ(indices[1][1], -1);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_top_k_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_top_k_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.indices = nullptr;
  EXPECT_EQ(tilewright_top_k(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "top_k: argument 'indices' is missing");
  EXPECT_EQ(tilewright_top_k(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_apply_penalties_call) == 88 && offsetof(tilewright_apply_penalties_call, recipe) == 80);

TEST(CApplyPenalties, ChangesWhatWasSeenPreparesQueriesExplainsAndRefuses) {
  float x[2][3] = {{4, -4, 1}, {3, 3, 3}}, repetition[2] = {2, 1}, frequency[2] = {0, 0.5f};
  int32_t prompt[2][1] = {{1}, {-1}}, output[2][2] = {{0, 7}, {2, 2}};
  int64_t shape[2] = {2, 3}, one[2] = {2, 1}, two[2] = {2, 2}, rows[1] = {2};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor p{prompt, {1, 0}, 2, {0, 32, 1}, one, nullptr, 0};
  const TwDLTensor o{output, {1, 0}, 2, {0, 32, 1}, two, nullptr, 0};
  const TwDLTensor r{repetition, {1, 0}, 1, {2, 32, 1}, rows, nullptr, 0};
  const TwDLTensor f{frequency, {1, 0}, 1, {2, 32, 1}, rows, nullptr, 0};
  tilewright_apply_penalties_call call = tilewright_apply_penalties_call_defaults();
  call.logits = call.out = &in, call.prompt_tokens = &p, call.output_tokens = &o;
  call.repetition = &r, call.frequency = &f;
  ASSERT_EQ(tilewright_apply_penalties_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_apply_penalties(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(x[0][0], 2);
  EXPECT_EQ(x[0][1], -8);
  EXPECT_EQ(x[0][2], 1);
  EXPECT_EQ(x[1][0], 3);
  EXPECT_EQ(x[1][2], 2);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_apply_penalties_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_apply_penalties_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.out = nullptr;
  EXPECT_EQ(tilewright_apply_penalties(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "apply_penalties: argument 'out' is missing");
  EXPECT_EQ(tilewright_apply_penalties(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_transpose_call) == 32 && offsetof(tilewright_transpose_call, recipe) == 24);

TEST(CTranspose, TransposesPreparesQueriesExplainsAndRefuses) {
  float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, out[3][2] = {};
  int64_t shape[2] = {2, 3}, other[2] = {3, 2};
  const TwDLTensor in{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, to{out, {1, 0}, 2, {2, 32, 1}, other, nullptr, 0};
  tilewright_transpose_call call = tilewright_transpose_call_defaults();
  call.x = &in, call.out = &to;
  ASSERT_EQ(tilewright_transpose_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_transpose(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(out[0][1], 4);
  EXPECT_EQ(out[2][0], 3);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_transpose_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_transpose_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.out = nullptr;
  EXPECT_EQ(tilewright_transpose(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "transpose: argument 'out' is missing");
  EXPECT_EQ(tilewright_transpose(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_sample_call) == 96 && offsetof(tilewright_sample_call, joint) == 4);
static_assert(offsetof(tilewright_sample_call, greedy) == 80 && offsetof(tilewright_sample_call, recipe) == 88);

TEST(CSample, ChoosesPreparesQueriesExplainsAndRefuses) {
  float logits[2][4] = {{0, 3, 1, 2}, {5, 5, 5, 6}}, logarithms[2] = {};
  int64_t ids[2] = {}, seeds[2] = {1, -2}, shape[2] = {2, 4}, rows[1] = {2};
  int32_t top_k[2] = {1, 1};
  const TwDLTensor in{logits, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor out{ids, {1, 0}, 1, {0, 64, 1}, rows, nullptr, 0};
  const TwDLTensor s{seeds, {1, 0}, 1, {0, 64, 1}, rows, nullptr, 0};
  const TwDLTensor k{top_k, {1, 0}, 1, {0, 32, 1}, rows, nullptr, 0};
  const TwDLTensor l{logarithms, {1, 0}, 1, {2, 32, 1}, rows, nullptr, 0};
  tilewright_sample_call call = tilewright_sample_call_defaults();
  call.logits = &in, call.ids = &out, call.seeds = &s, call.top_k = &k, call.log_probabilities = &l;
  ASSERT_EQ(tilewright_sample_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_sample(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[1], 3);
  EXPECT_NEAR(logarithms[1], -std::log(1 + 3 * std::exp(-1.0)), 1e-6);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_sample_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_sample_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.joint = 2;
  EXPECT_EQ(tilewright_sample(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "sample: argument 'joint' is 2, allowed: 0 to 1");
  EXPECT_EQ(tilewright_sample(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_norm_backward_call) == 80 && sizeof(tilewright_act_and_mul_backward_call) == 64);

TEST(CNormBackward, RunsPreparesQueriesExplainsAndRefuses) {
  float x[2] = {3, -3}, dy[2] = {1, 0}, dx[2] = {-1, -1}, weight[2] = {2, 4}, dweight[2] = {}, dbias[2] = {};
  int64_t shape[2] = {1, 2}, columns[1] = {2};
  const auto row = [&](float* data) { return TwDLTensor{data, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}; };
  const auto column = [&](float* data) { return TwDLTensor{data, {1, 0}, 1, {2, 32, 1}, columns, nullptr, 0}; };
  const TwDLTensor tx = row(x), tdy = row(dy), tdx = row(dx), tw = column(weight), tdw = column(dweight),
                   tdb = column(dbias);
  for (const bool rms : {true, false}) {
    tilewright_norm_backward_call call =
        rms ? tilewright_rms_norm_backward_call_defaults() : tilewright_layer_norm_backward_call_defaults();
    EXPECT_EQ(call.eps, rms ? 1e-6f : 1e-5f);
    call.eps = 0;
    call.x = &tx, call.dy = &tdy, call.dx = &tdx, call.weight = &tw, call.dweight = &tdw, call.dbias = &tdb;
    const auto run = rms ? &tilewright_rms_norm_backward : &tilewright_layer_norm_backward;
    const auto prepare = rms ? &tilewright_rms_norm_backward_prepare : &tilewright_layer_norm_backward_prepare;
    const auto query = rms ? &tilewright_rms_norm_backward_query : &tilewright_layer_norm_backward_query;
    const auto explain = rms ? &tilewright_rms_norm_backward_explain : &tilewright_layer_norm_backward_explain;
    ASSERT_EQ(prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
    ASSERT_EQ(run(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
    // Normalised it is 1, -1; the gradient 2, 0 has 1 along that, and 1 on average.
    EXPECT_FLOAT_EQ(dx[0], rms ? 1.0f / 3 : 0.0f);
    EXPECT_FLOAT_EQ(dx[1], rms ? 1.0f / 3 : 0.0f);
    EXPECT_EQ(dweight[0], 1);
    EXPECT_EQ(dbias[0], 1);
    tilewright_query_result result{};
    result.struct_size = sizeof(result);
    EXPECT_EQ(query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
    size_t size = 0;
    EXPECT_EQ(explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
    call.weight = nullptr;
    EXPECT_EQ(run(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
    EXPECT_EQ(run(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  }
}

TEST(CActAndMulBackward, RunsPreparesQueriesExplainsAndRefuses) {
  float x[2] = {2, 3}, dy[1] = {5}, dx[2] = {};
  int64_t shape[2] = {1, 2}, half[2] = {1, 1};
  const TwDLTensor tx{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, tdy{dy, {1, 0}, 2, {2, 32, 1}, half, nullptr, 0};
  const TwDLTensor tdx{dx, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  tilewright_act_and_mul_backward_call call = tilewright_act_and_mul_backward_call_defaults();
  call.x = &tx, call.dy = &tdy, call.dx = &tdx, call.activation = TILEWRIGHT_ACTIVATION_RELU;
  ASSERT_EQ(tilewright_act_and_mul_backward_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_act_and_mul_backward(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(dx[0], 15);
  EXPECT_EQ(dx[1], 10);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_act_and_mul_backward_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_act_and_mul_backward_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  call.gate = 9;
  EXPECT_EQ(tilewright_act_and_mul_backward(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_act_and_mul_backward(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_gated_rms_norm_call) == 88 && sizeof(tilewright_elementwise_call) == 40);

TEST(CGatedRmsNorm, RunsPreparesQueriesExplainsAndRefuses) {
  float x[2] = {3, 4}, z[2] = {0, 0}, y[2] = {-1, -1};
  int64_t shape[2] = {1, 2};
  const TwDLTensor tx{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, tz{z, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor ty{y, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  tilewright_gated_rms_norm_call call = tilewright_gated_rms_norm_call_defaults();
  call.x = &tx, call.z = &tz, call.out = &ty;
  ASSERT_EQ(tilewright_gated_rms_norm_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_gated_rms_norm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(y[0], 0);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_gated_rms_norm_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_gated_rms_norm_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  call.z = nullptr;
  EXPECT_EQ(tilewright_gated_rms_norm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "gated_rms_norm: argument 'z' is missing");
  EXPECT_EQ(tilewright_gated_rms_norm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

TEST(CElementwise, RunsPreparesQueriesExplainsAndRefuses) {
  float x[2] = {3, 4}, b[1] = {2}, y[2] = {};
  int64_t shape[2] = {1, 2}, one[1] = {1};
  const TwDLTensor tx{x, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, tb{b, {1, 0}, 1, {2, 32, 1}, one, nullptr, 0};
  const TwDLTensor ty{y, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  tilewright_elementwise_call call = tilewright_elementwise_call_defaults();
  call.x = &tx, call.b = &tb, call.out = &ty, call.arithmetic = TILEWRIGHT_ARITHMETIC_MUL;
  ASSERT_EQ(tilewright_elementwise_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_elementwise(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(y[1], 8);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_elementwise_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_elementwise_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  call.arithmetic = 9;
  EXPECT_EQ(tilewright_elementwise(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_elementwise(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

}  // namespace
