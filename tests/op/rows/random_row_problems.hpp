// SPDX-License-Identifier: MIT
// Random problems of a row operator, by every kernel that is built: the typed ones and the one that is typed at run time.
#pragma once

#include <fmt/format.h>

#include "op/rows/row_problems.hpp"
#include "support/random_choice.hpp"

namespace tilewright::test {

// `usual`: as random_problems() has it; `seed` tells operators apart; make_text(random) makes a problem's text. Where `may_refuse`,
// less than a quarter of them may be no valid problem.
template <class MakeText>
void check_random_row_problems(const Operator& op, int usual, uint64_t seed, MakeText&& make_text,
                               bool may_refuse = false) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  ContextImpl& impl = context->impl();
  const int first = from_environment("TILEWRIGHT_TEST_FIRST", 0), count = random_problems(usual);
  int refused = 0;
  for (int i = first; i < first + count; ++i) {
    Random random(static_cast<uint64_t>(i) * 7919 + seed);
    const std::string text = make_text(random);
    SCOPED_TRACE(fmt::format("number {}: {}", i, text));
    const Result<std::vector<std::byte>> problem = op.parse_problem(text);
    if (!problem.ok() && may_refuse) {
      EXPECT_EQ(problem.status().code(), StatusCode::kInvalidArgument) << problem.status().to_string();
      ++refused;
      continue;
    }
    ASSERT_TRUE(problem.ok()) << problem.status().to_string();

    // Text says all of a problem.
    const std::string printed = op.problem_text(*problem);
    const Result<std::vector<std::byte>> again = op.parse_problem(printed);
    ASSERT_TRUE(again.ok()) << printed << ": " << again.status().to_string();
    ASSERT_EQ(*again, *problem) << printed;

    const auto choices = impl.dispatcher().choices(op, *problem, impl.spec(0), TunedTable(), "", nullptr);
    ASSERT_TRUE(choices.ok()) << choices.status().to_string();
    for (const Choice& choice : *choices) {
      if (!impl.dispatcher().built(op, choice.recipe)) continue;
      const std::string recipe = print_recipe(op.families(), choice.recipe);
      const VerifyReport report = run_row_problem(*context, op, text, recipe, static_cast<uint64_t>(i),
                                                  static_cast<InputData>(pick(random, 0, 2)));
      ASSERT_TRUE(report.passed) << recipe << ": " << report.failure;
    }
  }
  EXPECT_LE(refused, count / 4);
}

}  // namespace tilewright::test
