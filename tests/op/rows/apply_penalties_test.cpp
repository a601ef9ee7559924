// SPDX-License-Identifier: MIT
// apply_penalties through dispatch and the public API: numbers and counts, every penalty, in place and not, what is documented of numbers
// of no token and of infinities.
#include "tilewright/apply_penalties.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kAll = "repetition=1:presence=1:frequency=1";

TEST(ApplyPenalties, EveryTypeSizeAndPlaceMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* v : {"1", "5", "17", "1000", "8192", "8193", "20000"}) {
      for (const char* seen :
           {"prompt=40:output=70", "prompt=3:in_place=1", "output=300:in_place=1", "prompt_counts=1:output_counts=1",
            "prompt=9:output=9:output_counts=1:in_place=1", "presence=1"}) {
        const std::string text = fmt::format("b=5:v={}:x={}:{}:{}", v, x, kAll, seen);
        const VerifyReport report = run_row_problem(*context, apply_penalties_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
  for (const char* text :
       {"b=0:v=9:x=f32:prompt=3", "b=3:v=0:x=f32:prompt=3:repetition=1", "b=300:v=100:x=bf16:output=20:frequency=1"}) {
    const VerifyReport report = run_row_problem(*context, apply_penalties_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_penalties_text(test::Random& random) {
  const int64_t v = test::pick(random, 1, test::chance(random, 0.2) ? 20000 : 300), rows = test::pick(random, 1, 6);
  std::string text = fmt::format("b={}:v={}:x={}", rows, v, test::pick_one(random, {"f32", "f16", "bf16"}));
  for (const char* field : {"repetition", "presence", "frequency", "prompt_counts", "output_counts", "in_place"}) {
    if (test::chance(random, 0.5)) text += fmt::format(":{}=1", field);
  }
  if (test::chance(random, 0.7)) text += fmt::format(":prompt={}", test::pick(random, 1, 100));
  if (test::chance(random, 0.7)) {
    const int64_t output = test::pick(random, 1, 100);
    text += fmt::format(":output={}", output);
    if (test::chance(random, 0.5)) text += fmt::format(":sor={}:st=2", 2 * output + 1);
  }
  if (test::chance(random, 0.4)) text += fmt::format(":sx={0}:so={0}", v + test::pick(random, 0, 7));
  return text;
}

TEST(ApplyPenaltiesRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(apply_penalties_operator(), 50, 71, random_penalties_text);
}

// vLLM's and transformers' formulas by hand.
TEST(ApplyPenalties, ThePublicFunctionChangesWhatWasSeen) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float logits[2][6] = {{2, -2, 4, 0, -kInfinity, kInfinity}, {1, 1, 1, 1, 1, NAN}};
  int32_t prompt[2][3] = {{0, 1, 6}, {5, -1, -1}}, output[2][4] = {{2, 2, 4, 5}, {0, 0, 0, 1 << 30}};
  float repetition[2] = {2, 1}, presence[2] = {0.5f, 1}, frequency[2] = {0.25f, -2};
  ApplyPenaltiesCall call;
  call.logits = call.out = TensorView::contiguous(logits, DType::kF32, {2, 6});
  call.prompt_tokens = TensorView::contiguous(prompt, DType::kI32, {2, 3});
  call.output_tokens = TensorView::contiguous(output, DType::kI32, {2, 4});
  call.repetition = TensorView::contiguous(repetition, DType::kF32, {2});
  call.presence = TensorView::contiguous(presence, DType::kF32, {2});
  call.frequency = TensorView::contiguous(frequency, DType::kF32, {2});
  const Status status = apply_penalties(*context, call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(std::span(logits[0]), testing::ElementsAre(1, -4, 2 - 2 * 0.25f - 0.5f, 0, -kInfinity, kInfinity));
  EXPECT_THAT(std::span(logits[1]).first(5), testing::ElementsAre(1 + 3 * 2 - 1, 1, 1, 1, 1));
  EXPECT_TRUE(std::isnan(logits[1][5]));

  const auto refusal = [&](auto&& change) {
    ApplyPenaltiesCall other = call;
    change(other);
    const Status refused = apply_penalties(*context, other);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    return refused.message();
  };
  EXPECT_EQ(refusal([](ApplyPenaltiesCall& c) { c.out = {}; }), "apply_penalties: argument 'out' is missing");
  EXPECT_EQ(refusal([](ApplyPenaltiesCall& c) { c.prompt_tokens.dtype = DType::kF32; }),
            "apply_penalties: argument 'prompt_tokens' is f32, allowed: i32");
  EXPECT_EQ(refusal([](ApplyPenaltiesCall& c) { c.presence.shape[0] = 1; }),
            "apply_penalties: argument 'presence' has 1 rows, 'logits' has 2");
  EXPECT_EQ(refusal([](ApplyPenaltiesCall& c) { c.output_counts = c.prompt_tokens; }),
            "apply_penalties: argument 'output_counts' has 3 columns, 'logits' has 6");
  EXPECT_THAT(refusal([&](ApplyPenaltiesCall& c) {
                c.out = TensorView::contiguous(logits[0] + 1, DType::kF32, {1, 6});
                c.logits.shape[0] = c.prompt_tokens.shape[0] = c.output_tokens.shape[0] = 1;
                c.repetition = c.presence = c.frequency = {};
              }),
              HasSubstr("'out' overlaps 'logits' without being the same elements"));
}

}  // namespace
}  // namespace tilewright
