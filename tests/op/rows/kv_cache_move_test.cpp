// SPDX-License-Identifier: MIT
// kv_cache_copy and kv_cache_gather through dispatch and the public API: every layout, type and scale equals the reference, and nothing
// else is written.
#include "tilewright/kv_cache_move.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(KvCacheMove, EveryLayoutTypeAndScaleMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* layout : {"nhd", "hnd", "key_packed", "value_transposed", "value_packed"}) {
    for (const char* types : {"x=f32", "x=bf16", "x=e4m3", "x=i32", "x=e4m3:out=bf16", "x=e5m2:out=f16:scales=head",
                              "x=e4m3fnuz:out=f32:scales=token", "x=i8:out=bf16:scales=token", "x=e5m2fnuz:out=f32"}) {
      const std::string gather = fmt::format("t=50:b=5:k=3:n=64:block=16:{}:layout={}", types, layout);
      const VerifyReport report = run_row_problem(*context, kv_cache_gather_operator(), gather);
      EXPECT_TRUE(report.passed) << gather << ": " << report.failure;
      if (std::strstr(types, "out") != nullptr) continue;
      const std::string copy = fmt::format("t=20:k=2:n=32:block=16:{}:layout={}", types, layout);
      const VerifyReport copied = run_row_problem(*context, kv_cache_copy_operator(), copy);
      EXPECT_TRUE(copied.passed) << copy << ": " << copied.failure;
    }
  }
}

TEST(KvCacheMove, NothingOneAndManyMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"t=0:x=f32", "t=1:n=1:x=i8", "t=5:k=0:x=f32", "t=33:n=70000:x=bf16:wide=1",
                           "t=4:blocks=0:x=f32", "t=7:n=5:x=f16:si=3.2"}) {
    const VerifyReport report = run_row_problem(*context, kv_cache_copy_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
  for (const char* text : {"t=0:x=f32", "t=9:b=0:x=f32", "t=30:b=40:n=3:x=bf16:block=1", "t=30:b=2:columns=0:x=f32",
                           "t=3000:b=7:n=16:x=e4m3:out=f32:block=7"}) {
    const VerifyReport report = run_row_problem(*context, kv_cache_gather_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_move_text(test::Random& random, bool gathers) {
  std::string text = fmt::format("t={}:k={}:n={}:block={}", test::pick(random, 1, 40), test::pick(random, 1, 4),
                                 test::pick(random, 1, 100), test::pick(random, 1, 20));
  const bool widens = gathers && test::chance(random, 0.5);
  if (widens) {
    text += fmt::format(
        ":x={}:out={}:scales={}", test::pick_one(random, {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8"}),
        test::pick_one(random, {"f32", "f16", "bf16"}), test::pick_one(random, {"tensor", "head", "token"}));
  } else {
    text += fmt::format(":x={}", test::pick_one(random, {"f32", "f16", "bf16", "e4m3", "i8", "i32"}));
  }
  if (gathers) text += fmt::format(":b={}", test::pick(random, 0, 9));
  if (!gathers && test::chance(random, 0.5)) text += ":wide=1";
  if (test::chance(random, 0.3)) text += fmt::format(":blocks={}", test::pick(random, 0, 5));
  return text + ":layout=" + std::string(test::pick_one(random, {"nhd", "hnd", "value_transposed"}));
}

TEST(KvCacheCopyRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(kv_cache_copy_operator(), 60, 43,
                                  [](test::Random& random) { return random_move_text(random, false); });
}
TEST(KvCacheGatherRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(kv_cache_gather_operator(), 60, 47,
                                  [](test::Random& random) { return random_move_text(random, true); });
}

TEST(KvCacheMove, BlocksMoveWithinACacheOfKeysAndValuesAndBetweenTwo) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kBlocks = 5, kEach = 24;
  // Keys, then values, as [2, blocks, ...]: seen with blocks first.
  std::vector<float> cache(2 * kBlocks * kEach), other(kBlocks * kEach, -1);
  std::iota(cache.begin(), cache.end(), 0.0f);
  const std::vector<float> before = cache;
  std::vector<int32_t> pairs{0, 3, 1, 4, -1, 2, 2, -1};
  const TensorView map = TensorView::contiguous(pairs.data(), DType::kI32, {4, 2});
  const TensorView both =
      TensorView::strided(cache.data(), DType::kF32, {kBlocks, 2, kEach}, {kEach, kBlocks * kEach, 1});
  Status status = kv_cache_copy(*context, {.from = both, .to = both, .mapping = map});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (size_t i = 0; i < cache.size(); ++i) {
    const auto block = static_cast<int64_t>(i) / kEach % kBlocks;
    EXPECT_EQ(cache[i], block >= 3 ? before[i - 3 * kEach] : before[i]) << i;
  }
  status = kv_cache_copy(*context, {.from = TensorView::contiguous(cache.data(), DType::kF32, {kBlocks, kEach}),
                                    .to = TensorView::contiguous(other.data(), DType::kF32, {kBlocks, kEach}),
                                    .mapping = map});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(other[3 * kEach], before[0]);
  EXPECT_EQ(other[2 * kEach], -1);
}

TEST(KvCacheMove, MlaRowsAreGatheredBehindEachOther) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kRow = 6, kBlocks = 4, kBlock = 2;
  std::vector<float> cache(kBlocks * kBlock * kRow), out(5 * kRow, -1);
  std::iota(cache.begin(), cache.end(), 0.0f);
  std::vector<int32_t> table{3, 0, 1, -1}, lengths{0, 3, 5};
  const Status status =
      kv_cache_gather(*context, {.cache = TensorView::contiguous(cache.data(), DType::kF32, {kBlocks, kBlock, kRow}),
                                 .out = TensorView::contiguous(out.data(), DType::kF32, {5, kRow}),
                                 .block_table = TensorView::contiguous(table.data(), DType::kI32, {2, 2}),
                                 .cumulative_lengths = TensorView::contiguous(lengths.data(), DType::kI32, {3})});
  ASSERT_TRUE(status.ok()) << status.to_string();
  const int64_t slots[] = {6, 7, 0, 2, 3};
  for (size_t t = 0; t < 5; ++t) EXPECT_EQ(out[t * kRow + 1], static_cast<float>(slots[t] * kRow + 1));
}

TEST(KvCacheMove, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> cache(64), out(64);
  std::vector<int32_t> numbers(8, 0);
  const KvCacheCopyCall copy{.from = TensorView::contiguous(cache.data(), DType::kF32, {4, 4}),
                             .to = TensorView::contiguous(out.data(), DType::kF32, {4, 4}),
                             .mapping = TensorView::contiguous(numbers.data(), DType::kI32, {2, 2})};
  const auto refusal = [&](auto&& change) {
    KvCacheCopyCall call = copy;
    change(call);
    const Status status = kv_cache_copy(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](KvCacheCopyCall& c) { c.to = {}; }), "kv_cache_copy: argument 'to' is missing");
  EXPECT_THAT(refusal([](KvCacheCopyCall& c) { c.to.shape[1] = 3; }),
              HasSubstr("'to' is f32 [4, 3], expected blocks as those of 'from', f32 [4, 4]"));
  EXPECT_THAT(refusal([](KvCacheCopyCall& c) { c.mapping.shape[1] = 3; }), HasSubstr("'mapping' is i32 [2, 3]"));
  EXPECT_THAT(refusal([&](KvCacheCopyCall& c) { c.to.data = cache.data() + 1; }), HasSubstr("'to' overlaps 'from'"));
  EXPECT_THAT(refusal([](KvCacheCopyCall& c) { c.to.stride[0] = 0; }), HasSubstr("'to' overlaps itself"));
  EXPECT_THAT(refusal([](KvCacheCopyCall& c) { c.from.data = nullptr; }), HasSubstr("'from' has a null data pointer"));

  KvCacheGatherCall gather{.cache = TensorView::contiguous(cache.data(), DType::kF32, {2, 2, 2, 4}),
                           .out = TensorView::contiguous(out.data(), DType::kF32, {3, 2, 4}),
                           .block_table = TensorView::contiguous(numbers.data(), DType::kI32, {1, 2}),
                           .cumulative_lengths = TensorView::contiguous(numbers.data(), DType::kI32, {3})};
  EXPECT_THAT(kv_cache_gather(*context, gather).message(),
              HasSubstr("'cumulative_lengths' is i32 [3], expected i32 [2]"));
  gather.cumulative_lengths.shape[0] = 2, gather.out.dtype = DType::kF16;
  EXPECT_THAT(kv_cache_gather(*context, gather).message(), HasSubstr("'out' is f16, allowed: f32, as 'cache'"));
}

}  // namespace
}  // namespace tilewright
