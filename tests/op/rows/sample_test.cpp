// SPDX-License-Identifier: MIT
// sample through the public API and through dispatch: every option alone and together, rows that have no token, ties, the distribution
// of a million draws.
#include "tilewright/sample.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "op/rows/random_row_problems.hpp"
#include "sample/sample_draw.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kGenericSample = "sample/sample_generic/x86-64/any/run_time=1";
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Sample, EveryOptionSizeAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* sizes : {"b=1:v=1", "b=9:v=5", "b=13:v=1000", "b=11:v=9001", "b=7:v=40003"}) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* options :
           {"", ":greedy=1:log_probabilities=1", ":temperature=1:log_probabilities=1:ids=2", ":top_k=1", ":top_p=1",
            ":min_p=1:offsets=1:seeds=1", ":temperature=1:top_k=1:top_p=1:min_p=1:offsets=2",
            ":temperature=1:top_k=1:top_p=1:joint=top_k_first"}) {
        const std::string text = fmt::format("{}:x={}{}", sizes, x, options);
        for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
          const VerifyReport report = run_row_problem(*context, sample_operator(), text, "", 1, data);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

std::string random_sample_text(test::Random& random) {
  const int64_t vocabulary = test::pick(random, 1, test::chance(random, 0.2) ? 20000 : 600);
  std::string text = fmt::format("b={}:v={}:x={}", test::pick(random, 0, 20), vocabulary,
                                 test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.1)) {
    text += ":greedy=1";
  } else {
    for (const char* option : {"temperature", "top_k", "top_p", "min_p"}) {
      if (test::chance(random, 0.5)) text += fmt::format(":{}=1", option);
    }
    if (test::chance(random, 0.5)) text += ":joint=top_k_first";
    if (test::chance(random, 0.5)) text += fmt::format(":offsets={}", test::pick(random, 1, 2));
    if (test::chance(random, 0.3)) text += ":seeds=1";
  }
  if (test::chance(random, 0.3)) text += ":ids=2";
  if (test::chance(random, 0.4)) text += ":log_probabilities=1";
  if (test::chance(random, 0.3)) text += fmt::format(":sx={}", vocabulary + test::pick(random, 0, 9));
  return text;
}

TEST(SampleRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(sample_operator(), 300, 91, random_sample_text);
}

// Options of all rows alike.
struct Options {
  float temperature = 1, top_p = 1, min_p = 0;
  int top_k = 0;
  SampleJoint joint = SampleJoint::kOriginalMass;
  bool greedy = false;
};
struct Drawn {
  std::vector<int> ids;
  std::vector<float> logarithms;
};
// Rows of the same logits with seeds from `seed` on.
Drawn draw(Context& context, std::vector<float> logits, int64_t rows, const Options& options, int64_t seed = 0,
           const char* recipe = "") {
  const auto size = static_cast<size_t>(rows);
  Drawn to{std::vector<int>(size, -7), std::vector<float>(size, -7)};
  std::vector<float> temperature(size, options.temperature), top_p(size, options.top_p), min_p(size, options.min_p);
  std::vector<int> top_k(size, options.top_k), seeds(size);
  for (size_t i = 0; i < size; ++i) seeds[i] = static_cast<int>(seed + static_cast<int64_t>(i));
  SampleCall call;
  call.logits = TensorView::strided(logits.data(), DType::kF32, {rows, static_cast<int64_t>(logits.size())}, {0, 1});
  const auto of_rows = [&](auto& values, DType dtype) { return TensorView::contiguous(values.data(), dtype, {rows}); };
  call.ids = of_rows(to.ids, DType::kI32), call.log_probabilities = of_rows(to.logarithms, DType::kF32);
  call.greedy = options.greedy, call.joint = options.joint, call.recipe = recipe;
  if (!options.greedy) {
    call.seeds = of_rows(seeds, DType::kI32), call.temperature = of_rows(temperature, DType::kF32);
    call.top_p = of_rows(top_p, DType::kF32), call.min_p = of_rows(min_p, DType::kF32);
    call.top_k = of_rows(top_k, DType::kI32);
  }
  const Status status = sample(context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return to;
}
std::set<int> support(Context& context, const std::vector<float>& logits, const Options& options) {
  const Drawn drawn = draw(context, logits, 4000, options);
  return {drawn.ids.begin(), drawn.ids.end()};
}

TEST(Sample, RowsWithoutATokenAndTies) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericSample}) {
    for (const bool greedy : {true, false}) {
      Options options;
      options.greedy = greedy;
      for (const float x : {kNaN, -kInf}) {
        const Drawn none = draw(*context, std::vector<float>(40, x), 2, options, 0, recipe);
        EXPECT_EQ(none.ids[0], -1);
        EXPECT_TRUE(std::isnan(none.logarithms[1]));
      }
      const Drawn one = draw(*context, {kNaN, -kInf, -1e30f, kNaN}, 50, options, 3, recipe);
      EXPECT_THAT(one.ids, testing::Each(2));
      EXPECT_THAT(one.logarithms, testing::Each(0));
    }
    // Of equal ones the smaller id, by greedy, by temperature 0, by top_k 1 and by top_p 0.
    const std::vector<float> tied = {1, 3, -0.0f, 3, kNaN, 3};
    for (const Options& options : {Options{.greedy = true}, Options{.temperature = 0}, Options{.top_k = 1},
                                   Options{.top_p = 0}, Options{.temperature = kNaN}}) {
      EXPECT_THAT(draw(*context, tied, 60, options, 1, recipe).ids, testing::Each(1));
    }
  }
  EXPECT_THAT(support(*context, {1, kInf, 2, kInf}, {}), testing::ElementsAre(1, 3));
}

TEST(Sample, TheSupportIsWhatTheOptionsLeave) {
  const std::unique_ptr<Context> context = row_context("off");
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float step = std::log(2.0f);
  const std::vector<float> logits = {-2 * step, 0, -step, -2 * step};
  using testing::ElementsAre;
  EXPECT_THAT(support(*context, logits, {}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support(*context, logits, {.top_k = 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(support(*context, logits, {.top_k = 100}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support(*context, logits, {.top_p = 0.7f}), ElementsAre(1, 2));
  EXPECT_THAT(support(*context, logits, {.top_p = 0.8f}), ElementsAre(0, 1, 2));
  EXPECT_THAT(support(*context, logits, {.min_p = 0.4f}), ElementsAre(1, 2));
  EXPECT_THAT(support(*context, logits, {.min_p = 1}), ElementsAre(1));
  // Of three with 0.875 of the mass: 0.8 of all needs three, 0.8 of the three two.
  EXPECT_THAT(support(*context, logits, {.top_p = 0.8f, .top_k = 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(support(*context, logits, {.top_p = 0.8f, .top_k = 3, .joint = SampleJoint::kTopKFirst}),
              ElementsAre(1, 2));
  // All alike: the smaller ids.
  EXPECT_THAT(support(*context, std::vector<float>(9, 2.5f), {.top_p = 0.3f}), ElementsAre(0, 1, 2));
  EXPECT_THAT(support(*context, std::vector<float>(9, 2.5f), {.top_k = 2}), ElementsAre(0, 1));
}

// Pearson's statistic of a million draws with fixed seeds; at 15 degrees of freedom 37.7 is passed by chance once in a thousand times.
TEST(Sample, AMillionDrawsHaveTheDistribution) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> logits;
  for (int i = 0; i < 16; ++i) logits.push_back(std::sin(static_cast<float>(i) * 1.7f) * 2);
  const auto statistic = [&](const Options& options, const std::vector<double>& shares) {
    constexpr int64_t kRows = 1000000;
    std::vector<double> counts(shares.size(), 0);
    for (const int id : draw(*context, logits, kRows, options, 12345).ids) counts[static_cast<size_t>(id)] += 1;
    double sum = 0, all = 0;
    for (const double s : shares) all += s;
    for (size_t i = 0; i < shares.size(); ++i) {
      const double want = shares[i] / all * kRows;
      EXPECT_TRUE(want > 0 || counts[i] == 0);
      if (want > 0) sum += (counts[i] - want) * (counts[i] - want) / want;
    }
    return sum;
  };
  std::vector<double> shares, warm, cut;
  for (const float x : logits) shares.push_back(std::exp(x)), warm.push_back(std::exp(x / 0.7f));
  EXPECT_LT(statistic({}, shares), 37.7);
  EXPECT_LT(statistic({.temperature = 0.7f}, warm), 37.7);
  std::vector<double> sorted = shares;
  std::ranges::sort(sorted, std::greater());
  for (const double s : shares) cut.push_back(s >= sorted[4] ? s : 0);
  EXPECT_LT(statistic({.top_k = 5}, cut), 18.5);  // 4 degrees of freedom
  // Where the end of the choice is in the bin that is drawn, and where it is not.
  double all = 0, before = 0;
  for (const double s : shares) all += s;
  std::vector<double> nucleus(shares.size(), 0), likely(shares.size(), 0);
  for (const double s : sorted) {
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] == s && before < 0.75 * all) nucleus[i] = s;
      if (shares[i] == s && s >= 0.3 * sorted[0]) likely[i] = s;
    }
    before += s;
  }
  EXPECT_LT(statistic({.top_p = 0.75f}, nucleus), 37.7);
  EXPECT_LT(statistic({.min_p = 0.3f}, likely), 37.7);
}

// Half of the mass is with tokens each of which is 2^-17 of the likeliest; logits that places do not tell apart are drawn from all the same.
TEST(Sample, TailsAndLogitsOutOfReachAreDrawn) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kRows = 400;
  const auto share_of_first = [&](const std::vector<float>& logits, const Options& options) {
    const Drawn drawn = draw(*context, logits, kRows, options, 99);
    return static_cast<double>(std::ranges::count(drawn.ids, 0)) / kRows;
  };
  std::vector<float> tail(1 + (1 << 17), -17 * std::log(2.0f));
  tail[0] = 0;
  EXPECT_NEAR(share_of_first(tail, {}), 0.5, 0.1);
  for (const float large : {3e6f, -3e6f}) {
    const std::vector<float> two = {large, large - 1};
    EXPECT_NEAR(share_of_first(two, {}), 0.731, 0.1);
    EXPECT_EQ(share_of_first(two, {.top_p = 0.7f}), 1);
    EXPECT_NEAR(share_of_first(two, {.top_p = 0.8f}), 0.731, 0.1);
    EXPECT_EQ(share_of_first(two, {.min_p = 0.5f}), 1);
  }
}

// A row's token depends on nothing beside it.
TEST(Sample, ARowDoesNotDependOnOthersOrOnUnits) {
  std::vector<float> logits;
  for (int i = 0; i < 5000; ++i) logits.push_back(std::sin(static_cast<float>(i) * 0.37f) * 3);
  const Options options{.temperature = 0.9f, .top_p = 0.8f, .top_k = 700};
  const Drawn all = draw(*row_context("off", 1), logits, 64, options, 5);
  const Drawn shared = draw(*row_context("off", 3), logits, 64, options, 5);
  EXPECT_EQ(all.ids, shared.ids);
  for (const int row : {0, 17, 63}) {
    EXPECT_EQ(draw(*row_context("off"), logits, 1, options, 5 + row).ids[0], all.ids[static_cast<size_t>(row)]);
  }
}

TEST(Sample, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float logits[32] = {}, numbers[4] = {};
  int ids[4] = {}, seeds[4] = {};
  const auto refusal = [&](auto&& change) {
    SampleCall call;
    call.logits = TensorView::contiguous(logits, DType::kF32, {4, 8});
    call.ids = TensorView::contiguous(ids, DType::kI32, {4});
    call.seeds = TensorView::contiguous(seeds, DType::kI32, {4});
    change(call);
    const Status status = sample(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([&](SampleCall& c) { c.ids = {}; }), "sample: argument 'ids' is missing");
  EXPECT_EQ(refusal([&](SampleCall& c) { c.seeds = {}; }),
            "sample: argument 'seeds' is missing, which rows that are not greedy need");
  EXPECT_EQ(refusal([&](SampleCall& c) { c.greedy = true; }), "sample: argument 'seeds' is given to a greedy call");
  EXPECT_EQ(refusal([&](SampleCall& c) { c.top_p = TensorView::contiguous(numbers, DType::kF32, {3}); }),
            "sample: argument 'top_p' has 3 of rank 1, allowed: [4]");
  EXPECT_EQ(refusal([&](SampleCall& c) { c.top_k = TensorView::contiguous(numbers, DType::kF32, {4}); }),
            "sample: argument 'top_k' is f32, allowed: i32");
  EXPECT_EQ(refusal([&](SampleCall& c) { c.ids = c.seeds; }), "sample: argument 'ids' overlaps 'seeds'");
  EXPECT_THAT(refusal([&](SampleCall& c) { c.logits = TensorView::contiguous(logits, DType::kF32, {4, 0}); }),
              HasSubstr("0 tokens, allowed: 1 to 2^31 - 1"));
}

TEST(Sample, NoRowsWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  SampleCall call;
  call.logits = TensorView::contiguous(nullptr, DType::kBf16, {0, 8});
  call.ids = TensorView::contiguous(nullptr, DType::kI32, {0});
  call.greedy = true;
  EXPECT_TRUE(sample(*context, call).ok());
  EXPECT_TRUE(sample_prepare(*context, call).ok());
}

}  // namespace
}  // namespace tilewright
