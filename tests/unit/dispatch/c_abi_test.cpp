// SPDX-License-Identifier: MIT
// The C ABI: numbers and layouts that other languages hold copies of, versioned structs, errors, NULL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tilewright/gemm.hpp"
#include "tilewright/tilewright.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

// ---- What never changes -------------------------------------------------------------------------------------------

static_assert(TILEWRIGHT_OK == static_cast<int>(StatusCode::kOk));
static_assert(TILEWRIGHT_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(TILEWRIGHT_UNSUPPORTED == static_cast<int>(StatusCode::kUnsupported));
static_assert(TILEWRIGHT_NOT_FOUND == static_cast<int>(StatusCode::kNotFound));
static_assert(TILEWRIGHT_OUT_OF_MEMORY == static_cast<int>(StatusCode::kOutOfMemory));
static_assert(TILEWRIGHT_COMPILE_FAILED == static_cast<int>(StatusCode::kCompileFailed));
static_assert(TILEWRIGHT_COMPILE_DISABLED == static_cast<int>(StatusCode::kCompileDisabled));
static_assert(TILEWRIGHT_DEVICE_ERROR == static_cast<int>(StatusCode::kDeviceError));
static_assert(TILEWRIGHT_VERIFY_FAILED == static_cast<int>(StatusCode::kVerifyFailed));
static_assert(TILEWRIGHT_TIMEOUT == static_cast<int>(StatusCode::kTimeout));
static_assert(TILEWRIGHT_IO_ERROR == static_cast<int>(StatusCode::kIoError));
static_assert(TILEWRIGHT_CORRUPT == static_cast<int>(StatusCode::kCorrupt));
static_assert(TILEWRIGHT_INTERNAL == static_cast<int>(StatusCode::kInternal));

static_assert(TILEWRIGHT_ACTIVATION_NONE == static_cast<int>(Activation::kNone));
static_assert(TILEWRIGHT_ACTIVATION_RELU == static_cast<int>(Activation::kRelu));
static_assert(TILEWRIGHT_ACTIVATION_GELU == static_cast<int>(Activation::kGelu));
static_assert(TILEWRIGHT_ACTIVATION_GELU_TANH == static_cast<int>(Activation::kGeluTanh));
static_assert(TILEWRIGHT_ACTIVATION_SILU == static_cast<int>(Activation::kSilu));
static_assert(TILEWRIGHT_ACTIVATION_SIGMOID == static_cast<int>(Activation::kSigmoid));
static_assert(TILEWRIGHT_ACTIVATION_TANH == static_cast<int>(Activation::kTanh));
static_assert(TILEWRIGHT_ACTIVATION_HARDSWISH == static_cast<int>(Activation::kHardswish));
static_assert(TILEWRIGHT_ACTIVATION_CLAMP == static_cast<int>(Activation::kClamp));
static_assert(enum_count(Activation{}) == TILEWRIGHT_ACTIVATION_CLAMP + 1, "name the new activation in tilewright.h");
static_assert(TILEWRIGHT_GATE_SEPARATED == static_cast<int>(GateMode::kSeparated));
static_assert(TILEWRIGHT_GATE_INTERLEAVED == static_cast<int>(GateMode::kInterleaved));
static_assert(enum_count(GateMode{}) == TILEWRIGHT_GATE_INTERLEAVED + 1, "name the new gate in tilewright.h");
static_assert(TILEWRIGHT_STEP_ACTIVATION == static_cast<int>(StepKind::kActivation));
static_assert(TILEWRIGHT_STEP_ADD == static_cast<int>(StepKind::kAdd));
static_assert(TILEWRIGHT_STEP_MULTIPLY == static_cast<int>(StepKind::kMultiply));
static_assert(TILEWRIGHT_GEMM_MAX_STEPS == kMaxSteps);

// Offsets of version 1 on 64-bit machines. New fields come behind them.
static_assert(sizeof(TwDLTensor) == 48 && offsetof(TwDLTensor, byte_offset) == 40);
static_assert(sizeof(tilewright_context_options) >= 48 && offsetof(tilewright_context_options, cpu_units) == 40);
static_assert(sizeof(tilewright_gemm_step) == 40 && offsetof(tilewright_gemm_step, tensor) == 16);
static_assert(sizeof(tilewright_gemm_call) >= 128);
static_assert(offsetof(tilewright_gemm_call, a) == 8 && offsetof(tilewright_gemm_call, d) == 24);
static_assert(offsetof(tilewright_gemm_call, b_packed) == 32 && offsetof(tilewright_gemm_call, scale_a) == 48);
static_assert(offsetof(tilewright_gemm_call, bias) == 72 && offsetof(tilewright_gemm_call, alpha) == 80);
static_assert(offsetof(tilewright_gemm_call, gate) == 92 && offsetof(tilewright_gemm_call, steps) == 104);
static_assert(offsetof(tilewright_gemm_call, recipe) == 120 && offsetof(tilewright_gemm_call, scale_a_outer) == 128);
static_assert(offsetof(tilewright_gemm_call, zero_b) == 144);
static_assert(sizeof(tilewright_exec) >= 48 && offsetof(tilewright_exec, parallel_for) == 32);
static_assert(sizeof(tilewright_query_result) >= 56 && offsetof(tilewright_query_result, source) == 24);
static_assert(sizeof(tilewright_grouped_gemm_call) >= 72 && offsetof(tilewright_grouped_gemm_call, gemm) == 8);
static_assert(offsetof(tilewright_grouped_gemm_call, status) == 48);
static_assert(offsetof(tilewright_grouped_gemm_call, alignment) == 56);
static_assert(sizeof(tilewright_packed_info) >= 40 && offsetof(tilewright_packed_info, bytes) == 32);

// ---- Helpers ------------------------------------------------------------------------------------------------------

// A row-major float matrix with its DLTensor.
struct Matrix {
  Matrix(int64_t rows, int64_t columns) : values(static_cast<size_t>(rows * columns)), shape{rows, columns} {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
    tensor = {values.data(), {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, shape, nullptr, 0};
  }
  std::vector<float> values;
  int64_t shape[2];
  TwDLTensor tensor;
};

struct SmallGemm {
  Matrix a{3, 5}, b{5, 4}, d{3, 4};
  tilewright_gemm_call call = tilewright_gemm_call_defaults();
  SmallGemm() {
    call.a = &a.tensor;
    call.b = &b.tensor;
    call.d = &d.tensor;
  }
  float expected(int m, int n) const {
    float sum = 0;
    for (int k = 0; k < 5; ++k) sum += a.values[m * 5 + k] * b.values[k * 4 + n];
    return sum;
  }
  void expect_right() const {
    for (int m = 0; m < 3; ++m) {
      for (int n = 0; n < 4; ++n) EXPECT_EQ(d.values[m * 4 + n], expected(m, n)) << m << ", " << n;
    }
  }
};

TEST(CAbi, GroupedGemmMultipliesTheRowsOfEachGroup) {
  SmallGemm small;
  int64_t groups_shape[] = {2}, b_shape[] = {2, 5, 4}, one[] = {1};
  std::vector<float> both = small.b.values;
  for (const float value : small.b.values) both.push_back(2 * value);
  small.b.tensor = {both.data(), {TW_DL_CPU, 0}, 3, {TW_DL_FLOAT, 32, 1}, b_shape, nullptr, 0};
  int32_t numbers[] = {2, 5}, flag = 0;
  const TwDLTensor sizes = {numbers, {TW_DL_CPU, 0}, 1, {TW_DL_INT, 32, 1}, groups_shape, nullptr, 0};
  const TwDLTensor status = {&flag, {TW_DL_CPU, 0}, 1, {TW_DL_INT, 32, 1}, one, nullptr, 0};
  tilewright_grouped_gemm_call call = tilewright_grouped_gemm_call_defaults();
  EXPECT_EQ(tilewright_grouped_gemm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.gemm = &small.call;
  EXPECT_EQ(tilewright_grouped_gemm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("argument 'sizes' is missing"));
  call.sizes = &sizes;
  call.status = &status;
  ASSERT_EQ(tilewright_grouped_gemm_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  tilewright_query_result result = tilewright_query_result_defaults();
  EXPECT_EQ(tilewright_grouped_gemm_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  EXPECT_EQ(result.built, 1);
  size_t size = 0;
  EXPECT_EQ(tilewright_grouped_gemm_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  for (const bool reference : {false, true}) {
    std::fill(small.d.values.begin(), small.d.values.end(), -1.0f);
    flag = 0;
    ASSERT_EQ(reference ? tilewright_grouped_gemm_reference(&call) : tilewright_grouped_gemm(nullptr, &call, nullptr),
              TILEWRIGHT_OK)
        << tilewright_last_error();
    EXPECT_EQ(flag, 1);
    for (int m = 0; m < 3; ++m) {
      for (int n = 0; n < 4; ++n) {
        EXPECT_EQ(small.d.values[static_cast<size_t>(m * 4 + n)], small.expected(m, n) * (m < 2 ? 1 : 2));
      }
    }
  }
}

// ---- Errors -------------------------------------------------------------------------------------------------------

TEST(CAbi, VersionsAndNamesAreText) {
  EXPECT_THAT(tilewright_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(tilewright_c_abi(), TILEWRIGHT_C_ABI);
  EXPECT_STREQ(tilewright_status_name(TILEWRIGHT_OK), "ok");
  EXPECT_STREQ(tilewright_status_name(TILEWRIGHT_CORRUPT), "corrupt");
  EXPECT_STREQ(tilewright_status_name(-7), "unknown");
}

TEST(CAbi, EveryRequiredPointerMayBeNullWithoutACrash) {
  EXPECT_EQ(tilewright_context_create(nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("'context' is NULL"));
  EXPECT_EQ(tilewright_context_global(nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  tilewright_context_destroy(nullptr);
  EXPECT_EQ(tilewright_tables_digest(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_counters(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_prepare(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_reference(nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_grouped_gemm(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_grouped_gemm_reference(nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  SmallGemm small;
  EXPECT_EQ(tilewright_gemm_query(nullptr, &small.call, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_explain(nullptr, &small.call, nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_packed_bytes(small.a.tensor.dtype, 4, 5, 1, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_pack_weights(nullptr, nullptr, nullptr, 0), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_pack_weights(nullptr, &small.b.tensor, nullptr, 0), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_packed_view(nullptr, 0, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_gemm_unpack_weights(nullptr, 0, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  for (const TwDLTensor** missing : {&small.call.a, &small.call.b, &small.call.d}) {
    const TwDLTensor* const kept = std::exchange(*missing, nullptr);
    EXPECT_EQ(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
    *missing = kept;
  }
}

TEST(CAbi, TheLastErrorNamesTheArgumentAndItsValue) {
  SmallGemm small;
  small.a.tensor.dtype.lanes = 2;
  EXPECT_EQ(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("argument 'a'"));
  EXPECT_THAT(tilewright_last_error(), HasSubstr("lanes is 2"));
}

TEST(CAbi, TheLastErrorBelongsToItsThread) {
  EXPECT_EQ(tilewright_context_global(nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  const std::string here = tilewright_last_error();
  std::string there = "untouched";
  std::thread([&there] { there = tilewright_last_error(); }).join();
  EXPECT_EQ(there, "");
  EXPECT_EQ(tilewright_last_error(), here);
}

TEST(CAbi, NumbersOutsideTheEnumsAreRefused) {
  SmallGemm small;
  const tilewright_gemm_call right = small.call;
  auto refused = [&small, &right](const char* what) {
    EXPECT_EQ(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
    EXPECT_THAT(tilewright_last_error(), HasSubstr(what));
    small.call = right;
  };
  small.call.activation = 9;
  refused("activation");
  small.call.activation = 256;  // 0 once cut to the C++ enum's byte
  refused("activation");
  small.call.gate = -1;
  refused("gate");
  small.call.flags = 16;
  refused("flags");
  small.call.step_count = 1;
  refused("steps");
  small.call.step_count = TILEWRIGHT_GEMM_MAX_STEPS + 1;
  refused("steps");
  tilewright_gemm_step step{};
  small.call.steps = &step;
  small.call.step_count = 1;
  refused("kind 0");
  tilewright_exec exec = tilewright_exec_defaults();
  exec.units = -1;
  small.call = right;
  EXPECT_EQ(tilewright_gemm(nullptr, &small.call, &exec), TILEWRIGHT_INVALID_ARGUMENT);
}

// ---- Versioned structs --------------------------------------------------------------------------------------------

TEST(CAbi, AStructWithoutItsSizeIsRefused) {
  SmallGemm small;
  small.call.struct_size = 0;
  EXPECT_EQ(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("struct_size is 0"));
}

TEST(CAbi, ANewerCallersUnknownFieldsAreAcceptedWhileZeroAndRefusedOtherwise) {
  struct Newer {
    tilewright_gemm_call call;
    uint64_t added;
  };
  SmallGemm small;
  Newer newer{small.call, 0};
  newer.call.struct_size = sizeof(Newer);
  EXPECT_EQ(tilewright_gemm(nullptr, &newer.call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  small.expect_right();
  newer.added = 1;
  EXPECT_EQ(tilewright_gemm(nullptr, &newer.call, nullptr), TILEWRIGHT_UNSUPPORTED);
}

TEST(CAbi, ABadOptionOfAContextIsRefusedAndNamed) {
  tilewright_context* context = nullptr;
  tilewright_context_options options = tilewright_context_options_defaults();
  options.jit = "sometimes";
  EXPECT_EQ(tilewright_context_create(&options, &context), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(context, nullptr);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("sometimes"));
  options = tilewright_context_options_defaults();
  options.flags = 2;
  EXPECT_EQ(tilewright_context_create(&options, &context), TILEWRIGHT_INVALID_ARGUMENT);
  options = tilewright_context_options_defaults();
  options.tuned_file_count = 1;
  EXPECT_EQ(tilewright_context_create(&options, &context), TILEWRIGHT_INVALID_ARGUMENT);
}

// ---- Calls --------------------------------------------------------------------------------------------------------

TEST(CAbi, GemmRunsInAContextOfItsOwn) {
  tilewright_context_options options = tilewright_context_options_defaults();
  options.flags = TILEWRIGHT_CONTEXT_NO_USER_TABLES;
  options.jit = "off";
  options.cpu_units = 1;
  tilewright_context* context = nullptr;
  ASSERT_EQ(tilewright_context_create(&options, &context), TILEWRIGHT_OK) << tilewright_last_error();
  SmallGemm small;
  EXPECT_EQ(tilewright_gemm_prepare(context, &small.call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(tilewright_gemm(context, &small.call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  small.expect_right();

  size_t count = 0;
  EXPECT_EQ(tilewright_counters(context, nullptr, &count), TILEWRIGHT_OK);
  std::vector<tilewright_counter> counters(count);
  EXPECT_EQ(tilewright_counters(context, counters.data(), &count), TILEWRIGHT_OK);
  EXPECT_STREQ(counters[0].name, "calls");
  EXPECT_EQ(counters[0].value, 1u);
  tilewright_context_destroy(context);
}

TEST(CAbi, TheGlobalContextSurvivesItsDestruction) {
  tilewright_context* context = nullptr;
  ASSERT_EQ(tilewright_context_global(&context), TILEWRIGHT_OK);
  tilewright_context_destroy(context);
  SmallGemm small;
  EXPECT_EQ(tilewright_gemm(context, &small.call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  small.expect_right();
}

TEST(CAbi, EveryFieldOfACallReachesGemm) {
  SmallGemm small;
  Matrix c(3, 4), bias(1, 4), extra(3, 4), want(3, 4);
  float scale_b_values[4] = {1, 2, 3, 4};
  int64_t scale_shape[1] = {4};
  TwDLTensor scale_b{scale_b_values, {TW_DL_CPU, 0}, 1, {TW_DL_FLOAT, 32, 1}, scale_shape, nullptr, 0};
  float scale_a_value = 0.5f;
  TwDLTensor scale_a{&scale_a_value, {TW_DL_CPU, 0}, 0, {TW_DL_FLOAT, 32, 1}, nullptr, nullptr, 0};
  tilewright_gemm_step steps[2] = {};
  steps[0].kind = TILEWRIGHT_STEP_MULTIPLY;
  steps[0].tensor = &extra.tensor;
  steps[1].kind = TILEWRIGHT_STEP_ACTIVATION;
  steps[1].activation = TILEWRIGHT_ACTIVATION_CLAMP;
  steps[1].low = -4;
  steps[1].high = 5;
  tilewright_gemm_call& call = small.call;
  call.flags = TILEWRIGHT_GEMM_DETERMINISTIC;
  call.alpha = 2;
  call.beta = 3;
  call.c = &c.tensor;
  call.bias = &bias.tensor;
  call.scale_a = &scale_a;
  call.scale_b = &scale_b;
  call.activation = TILEWRIGHT_ACTIVATION_RELU;
  call.steps = steps;
  call.step_count = 2;
  ASSERT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  for (int m = 0; m < 3; ++m) {
    for (int n = 0; n < 4; ++n) {
      float value = 2 * 0.5f * scale_b_values[n] * small.expected(m, n) + 3 * c.values[m * 4 + n] + bias.values[n];
      value = std::fmax(value, 0.0f) * extra.values[m * 4 + n];
      EXPECT_EQ(small.d.values[m * 4 + n], std::fmin(std::fmax(value, -4.0f), 5.0f)) << m << ", " << n;
    }
  }
  call.d = &want.tensor;
  ASSERT_EQ(tilewright_gemm_reference(&call), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(want.values, small.d.values);
}

TEST(CAbi, ScalesOfGroupsReachGemmFromCallersThatKnowThem) {
  SmallGemm small;
  float a_values[3] = {1, 0.5f, 4};
  uint8_t b_values[4] = {127, 128, 126, 129};  // 2^(code - 127)
  int64_t a_shape[2] = {3, 1}, b_shape[2] = {1, 4};
  TwDLTensor scale_a{a_values, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, a_shape, nullptr, 0};
  TwDLTensor scale_b{b_values, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT8_E8M0FNU, 8, 1}, b_shape, nullptr, 0};
  tilewright_gemm_call& call = small.call;
  call.scale_a = &scale_a;
  call.scale_b = &scale_b;
  call.scale_a_k = 128;  // outer = 0 is 1
  call.scale_b_outer = 1, call.scale_b_k = 32;
  ASSERT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  for (int m = 0; m < 3; ++m) {
    for (int n = 0; n < 4; ++n) {
      const float want = a_values[m] * std::ldexp(small.expected(m, n), b_values[n] - 127);
      EXPECT_EQ(small.d.values[m * 4 + n], want) << m << ", " << n;
    }
  }
  call.scale_b_outer = 2;
  EXPECT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("'scale_group_b' is 2 x 32, allowed"));
  // What lies behind an older caller's struct is not read.
  call.scale_b = nullptr;
  call.struct_size = offsetof(tilewright_gemm_call, scale_a_outer);
  EXPECT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(small.d.values[4], 0.5f * small.expected(1, 0));
}

TEST(CAbi, WeightsOfFourBitsReachGemmWithTheirZeroPoints) {
  // A [1, 32] of ones in bf16, B [32, 2] u4 of a weight [2, 32]: 16 values of 5 and 3 each; W = (q - z) s.
  std::vector<uint16_t> a(32, 0x3F80);
  std::vector<uint8_t> b(32, 0x35);
  uint8_t zero_codes[1] = {0x21};
  float scale_values[2] = {0.5f, 2}, d_values[2] = {};
  int64_t a_shape[2] = {1, 32}, b_shape[2] = {32, 2}, b_strides[2] = {1, 32}, group_shape[2] = {1, 2},
          d_shape[2] = {1, 2};
  TwDLTensor a_tensor{a.data(), {TW_DL_CPU, 0}, 2, {TW_DL_BFLOAT, 16, 1}, a_shape, nullptr, 0};
  TwDLTensor b_tensor{b.data(), {TW_DL_CPU, 0}, 2, {TW_DL_UINT, 4, 1}, b_shape, b_strides, 0};
  TwDLTensor scale_b{scale_values, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, group_shape, nullptr, 0};
  TwDLTensor zero_b{zero_codes, {TW_DL_CPU, 0}, 2, {TW_DL_UINT, 4, 1}, group_shape, nullptr, 0};
  TwDLTensor d{d_values, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, d_shape, nullptr, 0};
  tilewright_gemm_call call = tilewright_gemm_call_defaults();
  call.a = &a_tensor, call.b = &b_tensor, call.d = &d;
  call.scale_b = &scale_b, call.zero_b = &zero_b, call.scale_b_k = 32;
  ASSERT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(d_values[0], 0.5f * (16 * (5 - 1) + 16 * (3 - 1)));
  EXPECT_EQ(d_values[1], 2.0f * (16 * (5 - 2) + 16 * (3 - 2)));
  // What lies behind an older caller's struct is not read.
  call.struct_size = offsetof(tilewright_gemm_call, zero_b);
  ASSERT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(d_values[0], 0.5f * 16 * (5 + 3));
}

TEST(CAbi, TheCallersThreadsRunTheWork) {
  SmallGemm small;
  tilewright_exec exec = tilewright_exec_defaults();
  int calls = 0;
  exec.parallel_for_data = &calls;
  exec.parallel_for = [](void* data, uint32_t count, void (*body)(void*, uint32_t), void* body_data) {
    ++*static_cast<int*>(data);
    for (uint32_t i = 0; i < count; ++i) body(body_data, i);
  };
  ASSERT_EQ(tilewright_gemm(nullptr, &small.call, &exec), TILEWRIGHT_OK) << tilewright_last_error();
  small.expect_right();
  EXPECT_LE(calls, 1);  // a plan of one unit may run in place
}

TEST(CAbi, TextsAreCutAsSnprintfDoes) {
  SmallGemm small;
  small.a.tensor.data = small.b.tensor.data = small.d.tensor.data = nullptr;  // only described
  size_t needed = 0;
  ASSERT_EQ(tilewright_gemm_explain(nullptr, &small.call, nullptr, nullptr, &needed), TILEWRIGHT_OK)
      << tilewright_last_error();
  std::string whole(needed, 'x');
  size_t size = whole.size();
  ASSERT_EQ(tilewright_gemm_explain(nullptr, &small.call, nullptr, whole.data(), &size), TILEWRIGHT_OK);
  EXPECT_EQ(size, needed);
  EXPECT_EQ(whole.back(), '\0');
  EXPECT_THAT(whole, HasSubstr("gemm"));
  char cut[5] = "zzzz";
  size = sizeof(cut);
  ASSERT_EQ(tilewright_gemm_explain(nullptr, &small.call, nullptr, cut, &size), TILEWRIGHT_OK);
  EXPECT_EQ(size, needed);
  EXPECT_EQ(std::string(cut), whole.substr(0, 4));
}

TEST(CAbi, QueryTellsWhatWouldRun) {
  SmallGemm small;
  tilewright_query_result result = tilewright_query_result_defaults();
  ASSERT_EQ(tilewright_gemm_query(nullptr, &small.call, nullptr, &result), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_STRNE(result.source, "");
  std::string recipe(result.recipe_size, 'x');
  result.recipe = recipe.data();
  ASSERT_EQ(tilewright_gemm_query(nullptr, &small.call, nullptr, &result), TILEWRIGHT_OK);
  EXPECT_EQ(result.struct_size, sizeof(result));
  EXPECT_THAT(recipe, HasSubstr("gem"));
}

TEST(CAbi, TheTablesDigestIsTheContexts) {
  char digest[64] = "";
  size_t size = sizeof(digest);
  ASSERT_EQ(tilewright_tables_digest(nullptr, digest, &size), TILEWRIGHT_OK);
  EXPECT_EQ(Context::global().tables_digest(), digest);
}

// ---- Packed weights -----------------------------------------------------------------------------------------------

struct AlignedBytes {
  explicit AlignedBytes(int64_t bytes) : data(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64))) {}
  ~AlignedBytes() { std::free(data); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  void* data;
};

TEST(CAbi, PackedWeightsServeGemmAndUnpackExactly) {
  SmallGemm small;
  int64_t bytes = 0;
  ASSERT_EQ(tilewright_gemm_packed_bytes(small.b.tensor.dtype, 4, 5, 1, &bytes), TILEWRIGHT_OK);
  AlignedBytes packed(bytes);
  ASSERT_EQ(tilewright_gemm_pack_weights(nullptr, &small.b.tensor, packed.data, bytes), TILEWRIGHT_OK)
      << tilewright_last_error();
  tilewright_packed_info info = tilewright_packed_info_defaults();
  ASSERT_EQ(tilewright_gemm_packed_view(packed.data, bytes, &info), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(info.n, 4);
  EXPECT_EQ(info.k, 5);
  EXPECT_EQ(info.batch, 1);
  EXPECT_EQ(info.bytes, bytes);
  EXPECT_EQ(info.dtype.code, TW_DL_FLOAT);
  EXPECT_EQ(info.dtype.bits, 32);

  small.call.b = nullptr;
  small.call.b_packed = packed.data;
  small.call.b_packed_bytes = bytes;
  ASSERT_EQ(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  small.expect_right();
  small.call.b = &small.b.tensor;
  EXPECT_EQ(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("both"));

  Matrix back(5, 4);
  std::fill(back.values.begin(), back.values.end(), -1.0f);
  ASSERT_EQ(tilewright_gemm_unpack_weights(packed.data, bytes, &back.tensor), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(back.values, small.b.values);
}

TEST(CAbi, BytesThatAreNoPackedWeightsAreRefused) {
  AlignedBytes noise(4096);
  std::memset(noise.data, 0x5A, 4096);
  tilewright_packed_info info = tilewright_packed_info_defaults();
  EXPECT_NE(tilewright_gemm_packed_view(noise.data, 4096, &info), TILEWRIGHT_OK);
  SmallGemm small;
  small.call.b = nullptr;
  small.call.b_packed = noise.data;
  small.call.b_packed_bytes = 4096;
  EXPECT_NE(tilewright_gemm(nullptr, &small.call, nullptr), TILEWRIGHT_OK);
}

}  // namespace
}  // namespace tilewright
