// SPDX-License-Identifier: MIT
// Operators on the paged KV cache through the C ABI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "tilewright/tilewright.h"

namespace {

static_assert(sizeof(tilewright_kv_cache_write_call) == 80 && offsetof(tilewright_kv_cache_write_call, key) == 16);
static_assert(offsetof(tilewright_kv_cache_write_call, recipe) == 72);
static_assert(sizeof(tilewright_qk_norm_rope_cache_call) == 192 &&
              offsetof(tilewright_qk_norm_rope_cache_call, q) == 32);
static_assert(offsetof(tilewright_qk_norm_rope_cache_call, recipe) == 152);

// Two tokens, a head of two elements, two blocks of two.
struct CacheTensors {
  float key[2][1][2] = {{{3, 4}}, {{0, 2}}}, value[2][1][2] = {{{5, 6}}, {{7, 8}}};
  float key_cache[2][2][1][2] = {}, value_cache[2][2][1][2] = {};
  int64_t slots[2] = {3, -1};
  int64_t heads[3] = {2, 1, 2}, cache[4] = {2, 2, 1, 2}, tokens[1] = {2};
  TwDLTensor k{key, {1, 0}, 3, {2, 32, 1}, heads, nullptr, 0}, v{value, {1, 0}, 3, {2, 32, 1}, heads, nullptr, 0};
  TwDLTensor kc{key_cache, {1, 0}, 4, {2, 32, 1}, cache, nullptr, 0};
  TwDLTensor vc{value_cache, {1, 0}, 4, {2, 32, 1}, cache, nullptr, 0};
  TwDLTensor s{slots, {1, 0}, 1, {0, 64, 1}, tokens, nullptr, 0};
};

TEST(CKvCacheWrite, WritesPreparesQueriesExplainsAndRefuses) {
  CacheTensors t;
  tilewright_kv_cache_write_call call = tilewright_kv_cache_write_call_defaults();
  call.key = &t.k, call.value = &t.v, call.key_cache = &t.kc, call.value_cache = &t.vc, call.slot_mapping = &t.s;
  ASSERT_EQ(tilewright_kv_cache_write_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_kv_cache_write(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(t.key_cache[1][1][0][1], 4);
  EXPECT_EQ(t.value_cache[1][1][0][0], 5);
  EXPECT_EQ(t.key_cache[0][0][0][0], 0);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_kv_cache_write_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_kv_cache_write_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  call.key_layout = 5;
  EXPECT_EQ(tilewright_kv_cache_write(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "kv_cache_write: argument 'key_layout' is 5, allowed: 0 to 4");
  EXPECT_EQ(tilewright_kv_cache_write(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

static_assert(sizeof(tilewright_kv_cache_copy_call) == 40 && sizeof(tilewright_kv_cache_gather_call) == 64);

TEST(CKvCacheMove, CopiesGathersPreparesQueriesExplainsAndRefuses) {
  CacheTensors t;
  t.key_cache[0][1][0][0] = 9;
  int64_t pairs[2][2] = {{0, 1}, {-1, 0}}, map_shape[2] = {2, 2};
  const TwDLTensor map{pairs, {1, 0}, 2, {0, 64, 1}, map_shape, nullptr, 0};
  tilewright_kv_cache_copy_call copy = tilewright_kv_cache_copy_call_defaults();
  copy.from = copy.to = &t.kc, copy.mapping = &map;
  ASSERT_EQ(tilewright_kv_cache_copy_prepare(nullptr, &copy, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_kv_cache_copy(nullptr, &copy, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(t.key_cache[1][1][0][0], 9);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_kv_cache_copy_query(nullptr, &copy, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_kv_cache_copy_explain(nullptr, &copy, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  copy.mapping = nullptr;
  EXPECT_EQ(tilewright_kv_cache_copy(nullptr, &copy, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "kv_cache_copy: argument 'mapping' is missing");

  float out[2][1][2] = {};
  int32_t table[1][1] = {{1}}, lengths[2] = {0, 2};
  int64_t table_shape[2] = {1, 1}, lengths_shape[1] = {2};
  const TwDLTensor o{out, {1, 0}, 3, {2, 32, 1}, t.heads, nullptr, 0};
  const TwDLTensor b{table, {1, 0}, 2, {0, 32, 1}, table_shape, nullptr, 0};
  const TwDLTensor l{lengths, {1, 0}, 1, {0, 32, 1}, lengths_shape, nullptr, 0};
  tilewright_kv_cache_gather_call gather = tilewright_kv_cache_gather_call_defaults();
  gather.cache = &t.kc, gather.out = &o, gather.block_table = &b, gather.cumulative_lengths = &l;
  ASSERT_EQ(tilewright_kv_cache_gather_prepare(nullptr, &gather, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_kv_cache_gather(nullptr, &gather, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(out[1][0][0], 9);
  EXPECT_EQ(tilewright_kv_cache_gather_query(nullptr, &gather, nullptr, &result), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_kv_cache_gather_explain(nullptr, &gather, nullptr, nullptr, &size), TILEWRIGHT_OK);
  gather.layout = 5;
  EXPECT_EQ(tilewright_kv_cache_gather(nullptr, &gather, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_kv_cache_gather(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

TEST(CQkNormRopeCache, NormalisesTurnsWritesPreparesQueriesExplainsAndRefuses) {
  CacheTensors t;
  float cos[2][1] = {{1}, {0}}, sin[2][1] = {{0}, {1}}, q[2][1][2] = {{{3, 4}}, {{6, 8}}}, out[2][1][2] = {};
  int64_t table[2] = {2, 1};
  const TwDLTensor c{cos, {1, 0}, 2, {2, 32, 1}, table, nullptr, 0}, s{sin, {1, 0}, 2, {2, 32, 1}, table, nullptr, 0};
  const TwDLTensor in{q, {1, 0}, 3, {2, 32, 1}, t.heads, nullptr, 0},
      to{out, {1, 0}, 3, {2, 32, 1}, t.heads, nullptr, 0};
  tilewright_qk_norm_rope_cache_call call = tilewright_qk_norm_rope_cache_call_defaults();
  call.q = &in, call.q_out = &to, call.k = &t.k, call.v = &t.v, call.cos = &c, call.sin = &s;
  call.key_cache = &t.kc, call.value_cache = &t.vc, call.slot_mapping = &t.s;
  ASSERT_EQ(tilewright_qk_norm_rope_cache_prepare(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_EQ(tilewright_qk_norm_rope_cache(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  // Over the root of 12.5; the second token a quarter turn further.
  EXPECT_NEAR(out[0][0][0], 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(out[1][0][0], -4 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(out[1][0][1], 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(t.key_cache[1][1][0][1], 4 / std::sqrt(12.5), 1e-6);
  EXPECT_EQ(t.value_cache[1][1][0][1], 6);
  tilewright_query_result result{};
  result.struct_size = sizeof(result);
  EXPECT_EQ(tilewright_qk_norm_rope_cache_query(nullptr, &call, nullptr, &result), TILEWRIGHT_OK);
  size_t size = 0;
  EXPECT_EQ(tilewright_qk_norm_rope_cache_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_OK);
  EXPECT_GT(size, 1u);
  // Two axes, of which the only pair takes the second.
  int32_t positions[2][2] = {{0, 0}, {1, 0}};
  int64_t shape[2] = {2, 2};
  const TwDLTensor at{positions, {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  call.positions = &at, call.sections[1] = 1;
  ASSERT_EQ(tilewright_qk_norm_rope_cache(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_NEAR(out[0][0][0], -4 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(out[1][0][0], 3 / std::sqrt(12.5), 1e-6);
  call.q_out = nullptr;
  EXPECT_EQ(tilewright_qk_norm_rope_cache(nullptr, &call, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tilewright_last_error()), "qk_norm_rope_cache: argument 'q_out' is missing");
  EXPECT_EQ(tilewright_qk_norm_rope_cache(nullptr, nullptr, nullptr), TILEWRIGHT_INVALID_ARGUMENT);
}

}  // namespace
