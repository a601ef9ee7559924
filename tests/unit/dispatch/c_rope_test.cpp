// SPDX-License-Identifier: MIT
// rope through the C ABI.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "tilewright/tilewright.h"

namespace {

static_assert(sizeof(tilewright_rope_call) == 120 && offsetof(tilewright_rope_call, q) == 8);
static_assert(offsetof(tilewright_rope_call, positions) == 56 && offsetof(tilewright_rope_call, recipe) == 64);

TEST(CRope, TurnsQueriesExplainsAndRefuses) {
  float q[2][1][4] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}}, cos[3][1] = {{1}, {0}, {-1}}, sin[3][1] = {{0}, {1}, {0}};
  int32_t positions[2] = {1, 2};
  int64_t shape[3] = {2, 1, 4}, table[2] = {3, 1}, tokens[1] = {2};
  const TwDLTensor in{q, {1, 0}, 3, {2, 32, 1}, shape, nullptr, 0};
  const TwDLTensor c{cos, {1, 0}, 2, {2, 32, 1}, table, nullptr, 0}, s{sin, {1, 0}, 2, {2, 32, 1}, table, nullptr, 0};
  const TwDLTensor at{positions, {1, 0}, 1, {0, 32, 1}, tokens, nullptr, 0};
  tilewright_rope_call call = tilewright_rope_call_defaults();
  EXPECT_EQ(tilewright_rope(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.q = call.q_out = &in, call.cos = &c, call.sin = &s, call.positions = &at;
  ASSERT_EQ(tilewright_rope_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_rope(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  // A quarter turn of the first pair, half a turn of the second token's.
  EXPECT_EQ(q[0][0][0], -2);
  EXPECT_EQ(q[0][0][1], 1);
  EXPECT_EQ(q[0][0][2], 3);
  EXPECT_EQ(q[1][0][0], -5);
  EXPECT_EQ(q[1][0][3], 8);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_rope_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_rope_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  EXPECT_EQ(tilewright_rope_explain(nullptr, &call, nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  // Of packed sequences, the second token the first of its own: nothing turns but by its offset of 2.
  int32_t lengths[3] = {0, 1, 2}, offsets[2] = {0, 2};
  int64_t three[1] = {3};
  const TwDLTensor begins{lengths, {1, 0}, 1, {0, 32, 1}, three, nullptr, 0};
  const TwDLTensor further{offsets, {1, 0}, 1, {0, 32, 1}, tokens, nullptr, 0};
  call.positions = nullptr, call.cumulative_lengths = &begins, call.offsets = &further;
  ASSERT_EQ(tilewright_rope(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(q[0][0][0], -2);
  EXPECT_EQ(q[1][0][0], 5);
  call.section_order = 3;
  EXPECT_EQ(tilewright_rope(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.section_order = TILEWRIGHT_ROPE_SECTIONS_PARTS, call.sections[0] = call.sections[1] = 1;
  EXPECT_EQ(tilewright_rope(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  call.sections[0] = call.sections[1] = 0;
  call.k = &in;
  EXPECT_EQ(tilewright_rope(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "rope: argument 'k_out' is missing");
  EXPECT_EQ(tilewright_rope(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

}  // namespace
