// SPDX-License-Identifier: MIT
// qk_norm_rope_cache through dispatch and the public API: norms, angles, types and layouts equal the float64 reference.
#include "tilewright/qk_norm_rope_cache.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/rms_norm.hpp"
#include "tilewright/rope.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(QkNormRopeCache, EveryNormOrderAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* norm : {"", ":norm=1", ":weight=bf16", ":weight=f32:q_weight=1:unit_offset=1"}) {
      for (const char* angles : {"", ":table=f32", ":table=bf16:interleaved=1:dims=32:positions=1"}) {
        for (const char* types : {"", ":cache=e4m3:scales=token", ":cache=i8:qo=e5m2:q_scales=token"}) {
          const std::string text = fmt::format("t=21:q=4:k=2:n=64:x={}{}{}{}", x, norm, angles, types);
          const VerifyReport report = run_row_problem(*context, qk_norm_rope_cache_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

TEST(QkNormRopeCache, OddHeadsAndNoneMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"t=1:q=1:k=1:n=1:x=bf16:norm=1", "t=9:q=3:k=1:v=2:n=77:nv=30:x=f16:weight=f16:table=f32:dims=50",
        "t=0:q=4:k=1:n=64:x=f32:norm=1", "t=5:q=0:k=2:n=34:x=f32:table=f32:norm=1", "t=4:q=2:k=0:v=1:n=64:x=f32:norm=1",
        "t=19:q=2:k=1:n=128:x=bf16:norm=1:table=f32:sections=16.24.24",
        "t=19:q=2:k=1:n=128:x=bf16:table=bf16:sections=24.20.20:order=interleaved:wide_positions=1:interleaved=1",
        "t=300:q=2:k=1:v=0:n=130:x=bf16:table=f16:positions=1:wide_positions=1"}) {
    const VerifyReport report = run_row_problem(*context, qk_norm_rope_cache_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_heads_text(test::Random& random) {
  const int64_t n = test::pick(random, 1, 150), heads = test::pick(random, 0, 4);
  std::string text = fmt::format("t={}:q={}:k={}:n={}:x={}", test::pick(random, 1, 20), heads, test::pick(random, 1, 3),
                                 n, test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.5)) text += ":norm=1";
  if (test::chance(random, 0.5)) text += fmt::format(":weight={}", test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.7)) {
    const int64_t pairs = test::pick(random, 0, n / 2);
    text += fmt::format(":table={}:dims={}", test::pick_one(random, {"f32", "f16", "bf16"}), pairs * 2);
    if (test::chance(random, 0.4)) {
      text += fmt::format(":sections={}.{}:order={}", (pairs + 1) / 2, pairs / 2,
                          test::pick_one(random, {"runs", "interleaved"}));
    }
  }
  if (test::chance(random, 0.5)) text += ":positions=1";
  if (test::chance(random, 0.5)) text += ":interleaved=1";
  if (test::chance(random, 0.5))
    text += fmt::format(":cache={}:scales={}", test::pick_one(random, {"e4m3", "i8"}),
                        test::pick_one(random, {"head", "token"}));
  if (test::chance(random, 0.3))
    text += fmt::format(":qo=e4m3:q_scales={}", test::pick_one(random, {"tensor", "head", "token"}));
  if (test::chance(random, 0.5)) text += ":klayout=" + test::pick_one(random, {"hnd", "value_transposed"});
  return text;
}

TEST(QkNormRopeCacheRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(qk_norm_rope_cache_operator(), 50, 51, random_heads_text);
}

// Heads of one packed tensor, queries in place: as rms_norm, rope and kv_cache_write one after the other.
TEST(QkNormRopeCache, PackedHeadsInPlaceAreWhatThreeOperatorsMakeOfThem) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kTokens = 6, kQ = 4, kK = 2, kD = 32, kAll = (kQ + 2 * kK) * kD, kBlock = 4, kBlocks = 3;
  std::vector<float> packed(kTokens * kAll), weight(kD), cos(10 * kD / 2), sin(cos.size());
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<float>(i % 37) - 11;
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 1 + static_cast<float>(i) / 32;
  ASSERT_TRUE(rope_tables(*rope_angles({.dims = kD}), 0, 10, cos, sin).ok());
  std::vector<int32_t> positions{5, 0, 2, 9, 7, 1}, slots{4, 5, -1, 11, 0, 2};
  const auto heads = [&](std::vector<float>& of, int64_t first, int64_t count) {
    return TensorView::strided(of.data() + first * kD, DType::kF32, {kTokens, count, kD}, {kAll, kD, 1});
  };
  const auto cache = [&](std::vector<float>& of) {
    return TensorView::contiguous(of.data(), DType::kF32, {kBlocks, kBlock, kK, kD});
  };
  std::vector<float> steps = packed;
  std::vector<float> want_k(kBlocks * kBlock * kK * kD, -1), want_v(want_k), got_k(want_k), got_v(want_k);

  QkNormRopeCacheCall call;
  call.q = call.q_out = heads(packed, 0, kQ), call.k = heads(packed, kQ, kK), call.v = heads(packed, kQ + kK, kK);
  call.key_cache = cache(got_k), call.value_cache = cache(got_v);
  call.slot_mapping = TensorView::contiguous(slots.data(), DType::kI32, {kTokens});
  call.positions = TensorView::contiguous(positions.data(), DType::kI32, {kTokens});
  call.q_weight = call.k_weight = TensorView::contiguous(weight.data(), DType::kF32, {kD});
  call.cos = TensorView::contiguous(cos.data(), DType::kF32, {10, kD / 2});
  call.sin = TensorView::contiguous(sin.data(), DType::kF32, {10, kD / 2});
  const Status status = qk_norm_rope_cache(*context, call);
  ASSERT_TRUE(status.ok()) << status.to_string();

  for (const TensorView& x : {heads(steps, 0, kQ), heads(steps, kQ, kK)}) {
    RmsNormCall norm;
    norm.x = norm.out = x, norm.weight = call.q_weight, norm.eps = call.eps;
    ASSERT_TRUE(rms_norm(*context, norm).ok());
  }
  RopeCall turn;
  turn.q = turn.q_out = heads(steps, 0, kQ), turn.k = turn.k_out = heads(steps, kQ, kK);
  turn.cos = call.cos, turn.sin = call.sin, turn.positions = call.positions;
  ASSERT_TRUE(rope(*context, turn).ok());
  KvCacheWriteCall write;
  write.key = heads(steps, kQ, kK), write.value = heads(steps, kQ + kK, kK);
  write.key_cache = cache(want_k), write.value_cache = cache(want_v), write.slot_mapping = call.slot_mapping;
  ASSERT_TRUE(kv_cache_write(*context, write).ok());

  EXPECT_EQ(got_v, want_v);
  for (size_t i = 0; i < want_k.size(); ++i) ASSERT_NEAR(got_k[i], want_k[i], 1e-5) << i;
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kQ * kD; ++i) {
      const auto at = static_cast<size_t>(t * kAll + i);
      ASSERT_NEAR(packed[at], steps[at], 1e-5) << at;
    }
  }
  call.q_out = heads(packed, 1, kQ);
  EXPECT_THAT(qk_norm_rope_cache(*context, call).message(), HasSubstr("'q_out' overlaps"));
  call.q_out = call.q, call.cos.shape[1] = call.sin.shape[1] = 17;
  EXPECT_THAT(qk_norm_rope_cache(*context, call).message(), HasSubstr("turns 34 elements of 32"));
}

}  // namespace
}  // namespace tilewright
