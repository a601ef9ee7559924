// SPDX-License-Identifier: MIT
// kv_cache_write through dispatch and the public API: every layout, type and scale equals the float64 reference, and nothing but the
// tokens' slots is written.
#include "tilewright/kv_cache.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kLayouts[] = {"nhd", "hnd", "key_packed", "value_transposed", "value_packed"};

TEST(KvCacheWrite, EveryLayoutTypeAndScaleMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* layout : kLayouts) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* cache : {"", ":cache=e4m3", ":cache=e5m2:scales=head", ":cache=e4m3fnuz:scales=token",
                                ":cache=e5m2fnuz", ":cache=i8:scales=token"}) {
        for (const char* sizes : {"t=37:k=3:n=64:block=16", "t=5:k=1:v=2:n=32:nv=16:block=32"}) {
          const std::string text = fmt::format("{0}:x={1}{2}:klayout={3}:vlayout={3}", sizes, x, cache, layout);
          const VerifyReport report = run_row_problem(*context, kv_cache_write_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

TEST(KvCacheWrite, OddHeadsManyTokensAndNoneMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"t=1:k=1:n=1:x=bf16:block=1", "t=40:k=2:n=77:nv=33:x=f16:block=3:wide_slots=1", "t=0:k=2:n=64:x=f32",
        "t=9:k=4:v=0:n=130:x=bf16:cache=i8:scales=token", "t=3000:k=1:n=16:x=bf16:block=7:blocks=20", "t=12:k=0:x=f32",
        "t=20:k=2:n=2048:x=f32:cache=e4m3:scales=token", "t=6:k=2:n=8:x=f32:blocks=0"}) {
    const VerifyReport report = run_row_problem(*context, kv_cache_write_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_cache_text(test::Random& random) {
  const int64_t heads = test::pick(random, 1, 4), n = test::pick(random, 1, test::chance(random, 0.2) ? 600 : 100);
  const int64_t tokens = test::pick(random, 1, 30), block = test::pick(random, 1, 20);
  std::string text = fmt::format("t={}:k={}:n={}:block={}:x={}", tokens, heads, n, block,
                                 test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.6)) {
    text += fmt::format(":cache={}:scales={}", test::pick_one(random, {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8"}),
                        test::pick_one(random, {"tensor", "head", "token"}));
  }
  if (test::chance(random, 0.3))
    text += fmt::format(":v={}:nv={}", test::pick(random, 0, 4), test::pick(random, 1, 99));
  if (test::chance(random, 0.3)) text += fmt::format(":blocks={}", test::pick(random, 0, 5));
  if (test::chance(random, 0.5)) text += ":wide_slots=1";
  if (test::chance(random, 0.3)) text += fmt::format(":sm={}", test::pick(random, 2, 7));
  if (test::chance(random, 0.6)) {
    text += fmt::format(":klayout={}:vlayout={}", test::pick_one(random, {"nhd", "hnd", "value_transposed"}),
                        test::pick_one(random, {"nhd", "hnd", "value_transposed"}));
  }
  // Tokens inside heads, and gaps.
  if (test::chance(random, 0.4)) text += fmt::format(":sk={}.{}", n + 3, (n + 3) * tokens);
  return text;
}

TEST(KvCacheWriteRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(kv_cache_write_operator(), 60, 41, random_cache_text);
}

// The layouts as their libraries index them.
struct LayoutCall {
  static constexpr int64_t kTokens = 5, kHeads = 2, kD = 16, kBlocks = 3, kBlock = 8, kX = 4;
  std::vector<float> key, value, key_cache, value_cache;
  std::vector<int32_t> slots{9, 0, -1, 23, 24};

  LayoutCall()
      : key(kTokens * kHeads * kD),
        value(key.size()),
        key_cache(kBlocks * kBlock * kHeads * kD, -1),
        value_cache(key_cache) {
    for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<float>(i), value[i] = 1000 + static_cast<float>(i);
  }
  KvCacheWriteCall call(CacheLayout k, std::initializer_list<int64_t> k_shape, CacheLayout v,
                        std::initializer_list<int64_t> v_shape) {
    KvCacheWriteCall c;
    c.key = TensorView::contiguous(key.data(), DType::kF32, {kTokens, kHeads, kD});
    c.value = TensorView::contiguous(value.data(), DType::kF32, {kTokens, kHeads, kD});
    c.key_cache = TensorView::contiguous(key_cache.data(), DType::kF32, k_shape);
    c.value_cache = TensorView::contiguous(value_cache.data(), DType::kF32, v_shape);
    c.key_layout = k, c.value_layout = v;
    c.slot_mapping = TensorView::contiguous(slots.data(), DType::kI32, {kTokens});
    return c;
  }
  // Compares with what at(block, position, head, element) names; the fifth token is beyond the cache.
  template <class KeyAt, class ValueAt>
  void check(KeyAt&& key_at, ValueAt&& value_at) {
    std::vector<float> want_key(key_cache.size(), -1), want_value(want_key);
    for (int64_t t : {0, 1, 3}) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t d = 0; d < kD; ++d) {
          const int64_t block = slots[static_cast<size_t>(t)] / kBlock,
                        position = slots[static_cast<size_t>(t)] % kBlock;
          const auto from = static_cast<size_t>((t * kHeads + h) * kD + d);
          want_key[static_cast<size_t>(key_at(block, position, h, d))] = key[from];
          want_value[static_cast<size_t>(value_at(block, position, h, d))] = value[from];
        }
      }
    }
    EXPECT_EQ(key_cache, want_key);
    EXPECT_EQ(value_cache, want_value);
  }
};
using L = LayoutCall;

TEST(KvCacheWrite, CachesLieAsVllmFlashAndAiterIndexThem) {
  const std::unique_ptr<Context> context = row_context("off");
  const auto run = [&](const KvCacheWriteCall& call) {
    const Status status = kv_cache_write(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
  };
  const auto nhd = [](int64_t b, int64_t p, int64_t h, int64_t d) {
    return ((b * L::kBlock + p) * L::kHeads + h) * L::kD + d;
  };
  const auto hnd = [](int64_t b, int64_t p, int64_t h, int64_t d) {
    return ((b * L::kHeads + h) * L::kBlock + p) * L::kD + d;
  };
  const auto key_packed = [](int64_t b, int64_t p, int64_t h, int64_t d) {
    return (((b * L::kHeads + h) * (L::kD / L::kX) + d / L::kX) * L::kBlock + p) * L::kX + d % L::kX;
  };
  const auto transposed = [](int64_t b, int64_t p, int64_t h, int64_t d) {
    return ((b * L::kHeads + h) * L::kD + d) * L::kBlock + p;
  };
  const auto value_packed = [](int64_t b, int64_t p, int64_t h, int64_t d) {
    return (((b * L::kHeads + h) * (L::kBlock / L::kX) + p / L::kX) * L::kD + d) * L::kX + p % L::kX;
  };
  {
    L one;
    run(one.call(CacheLayout::kNhd, {L::kBlocks, L::kBlock, L::kHeads, L::kD}, CacheLayout::kHnd,
                 {L::kBlocks, L::kHeads, L::kBlock, L::kD}));
    one.check(nhd, hnd);
  }
  {
    L one;
    run(one.call(CacheLayout::kKeyPacked, {L::kBlocks, L::kHeads, L::kD / L::kX, L::kBlock, L::kX},
                 CacheLayout::kValueTransposed, {L::kBlocks, L::kHeads, L::kD, L::kBlock}));
    one.check(key_packed, transposed);
  }
  {
    L one;
    run(one.call(CacheLayout::kKeyPacked, {L::kBlocks, L::kHeads, L::kD / L::kX, L::kBlock, L::kX},
                 CacheLayout::kValuePacked, {L::kBlocks, L::kHeads, L::kBlock / L::kX, L::kD, L::kX}));
    one.check(key_packed, value_packed);
  }
}

TEST(KvCacheWrite, MlaRowsHoldBothPartsAndKeysAndValuesMayShareATensor) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kC = 24, kR = 8, kBlocks = 2, kBlock = 4;
  std::vector<float> c(3 * kC, 1), pe(3 * kR, 2), cache(kBlocks * kBlock * (kC + kR), 0);
  // i64 slots, of which one has a low word that names a slot.
  const int64_t slots[3] = {6, (int64_t{1} << 32) + 1, 0};
  const TensorView map =
      TensorView::contiguous(const_cast<int64_t*>(slots), DType::kI32, {3, 2});  // NOLINT: is only read
  const auto call = mla_cache_write_call(
      TensorView::contiguous(c.data(), DType::kF32, {3, kC}), TensorView::contiguous(pe.data(), DType::kF32, {3, kR}),
      TensorView::contiguous(cache.data(), DType::kF32, {kBlocks, kBlock, kC + kR}), map);
  ASSERT_TRUE(call.ok()) << call.status().to_string();
  const Status status = kv_cache_write(*context, *call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int64_t i = 0; i < kBlocks * kBlock * (kC + kR); ++i) {
    const int64_t slot = i / (kC + kR), column = i % (kC + kR);
    EXPECT_EQ(cache[static_cast<size_t>(i)], slot != 0 && slot != 6 ? 0 : column < kC ? 1 : 2) << i;
  }
}

TEST(KvCacheWrite, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  L one;
  const auto refusal = [&](auto&& change) {
    KvCacheWriteCall call = one.call(CacheLayout::kNhd, {L::kBlocks, L::kBlock, L::kHeads, L::kD}, CacheLayout::kNhd,
                                     {L::kBlocks, L::kBlock, L::kHeads, L::kD});
    change(call);
    const Status status = kv_cache_write(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](KvCacheWriteCall& c) { c.value_cache = {}; }),
            "kv_cache_write: argument 'value_cache' is missing");
  EXPECT_EQ(refusal([](KvCacheWriteCall& c) { c.slot_mapping = {}; }),
            "kv_cache_write: argument 'slot_mapping' is missing");
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.key_layout = CacheLayout::kHnd; }),
              HasSubstr("'key_cache' has shape [3, 8, 2, 16], expected [blocks, 2, block, 16]"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.value_cache.shape[0] = 2; }),
              HasSubstr("with 3 blocks of 8, as 'key_cache'"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.slot_mapping.shape[0] = 4; }),
              HasSubstr("'slot_mapping' is i32 [4], expected [5], i32, or [5, 2], the words of i64"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.key_cache.dtype = c.value_cache.dtype = DType::kF16; }),
              HasSubstr("'key_cache' is f16, allowed: f32, as 'key', or e4m3"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.key_cache.dtype = c.value_cache.dtype = DType::kI8; }),
              HasSubstr("with scales 'none', allowed: tensor, head, token"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) {
                c.key_cache.dtype = c.value_cache.dtype = DType::kI8, c.scales = CacheScales::kHead;
              }),
              HasSubstr("'key_scale' is missing"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.value_cache = c.key_cache; }), HasSubstr("overlaps 'value_cache'"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.key_cache.stride[0] = 0; }),
              HasSubstr("'key_cache' overlaps itself"));
  EXPECT_THAT(refusal([](KvCacheWriteCall& c) { c.key.data = nullptr; }), HasSubstr("'key' has a null data pointer"));
}

}  // namespace
}  // namespace tilewright
