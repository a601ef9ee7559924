// SPDX-License-Identifier: MIT
// What holds for every norm, through dispatch: every type, size, stride and quantiser equals the float64 reference.
#include <fmt/format.h>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;

class Norms : public testing::TestWithParam<const Operator*> {};
class NormsRandomProblems : public Norms {};
class SlowNorms : public Norms {};

TEST_P(Norms, EveryLengthAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* rest :
         {"", ":weight=f32", ":residual={}:weight={}", ":residual={}:weight=bf16:bias=f16:unit_offset=1"}) {
      for (const int n : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 200, 1000, 4096}) {
        std::string text = fmt::format("m=3:n={}:x={}", n, x) + rest;
        for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) text.replace(at, 2, x);
        const VerifyReport report = run_row_problem(*context, *GetParam(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST_P(Norms, EmptyProblemsWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=0:n=16:x=f32", "m=3:n=0:x=f32", "m=0:n=0:x=bf16:residual=bf16",
                           "m=3:n=0:x=bf16:out=i8:quant=row", "m=3:n=0:x=bf16:out=e4m3:quant=group"}) {
    const VerifyReport report = run_row_problem(*context, *GetParam(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_norm_text(test::Random& random, bool quantise) {
  const int dims = static_cast<int>(test::pick(random, 1, 3));
  std::string m;
  std::vector<int64_t> size;
  for (int i = 0; i < dims; ++i) {
    size.push_back(test::chance(random, 0.03) ? 0 : test::pick(random, 1, 5));
    m += fmt::format("{}{}", i == 0 ? "" : "x", size.back());
  }
  const int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 2, test::chance(random, 0.1) ? 9000 : 400);
  const std::string x = test::pick_one(random, {"f32", "f16", "bf16"});
  std::string text = fmt::format("m={}:n={}:x={}", m, n, x);
  if (test::chance(random, 0.5)) text += ":residual=" + test::pick_one(random, {"f32", "f16", "bf16"});
  if (text.find("residual") != std::string::npos && test::chance(random, 0.3)) text += ":residual_out=0";
  const bool weight = test::chance(random, 0.7);
  if (weight) text += ":weight=" + test::pick_one(random, {"f32", "f16", "bf16"});
  if (test::chance(random, 0.3)) text += ":bias=" + test::pick_one(random, {"f32", "f16", "bf16"});
  if (test::chance(random, 0.2)) text += ":smooth=" + test::pick_one(random, {"f32", "f16", "bf16"});
  if (weight && test::chance(random, 0.2)) text += ":unit_offset=1";
  if (test::chance(random, 0.2)) text += ":round_before_weight=1";
  if (quantise) {
    const std::string out = test::pick_one(random, {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8", "e2m1"});
    const std::string quant = test::pick_one(random, {"tensor", "row", "group"});
    text += ":out=" + out + ":quant=" + quant;
    if (quant == "group") {
      text += fmt::format(":group={}", test::pick_one(random, {"16", "32", "64", "128"}));
      if (out == "e2m1" && test::chance(random, 0.5)) {
        text += ":scale=e4m3:tensor_scale=" + test::pick_one(random, {"none", "given"});
      } else if (out != "i8" && test::chance(random, 0.5)) {
        text += ":scale=e8m0";
        text += ":rounding=" + test::pick_one(random, {"down", "up", "ceil", "even"});
      }
    }
  } else {
    text += ":out=" + test::pick_one(random, {"f32", "f16", "bf16"});
  }
  // Rows with gaps, in another order of dimensions.
  const auto strides = [&](const char* name, int64_t length) {
    int64_t step = length + test::pick(random, 0, 9);
    step += step % 2;
    std::vector<int64_t> stride(3, 0);
    const bool turned = test::chance(random, 0.3);
    for (int i = 0; i < dims; ++i) {
      const int d = turned ? i : dims - 1 - i;
      stride[static_cast<size_t>(3 - dims + d)] = test::chance(random, 0.1) ? -step : step;
      step *= std::max<int64_t>(size[static_cast<size_t>(d)], 1);
      step += 2 * test::pick(random, 0, 3);
    }
    text += fmt::format(":{}={}.{}.{}", name, stride[0], stride[1], stride[2]);
  };
  if (test::chance(random, 0.4)) strides("sx", n);
  if (test::chance(random, 0.4)) strides("so", n);
  return text;
}

TEST_P(NormsRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(
      *GetParam(), 150, 31, [](test::Random& random) { return random_norm_text(random, false); }, /*may_refuse=*/true);
}
TEST_P(NormsRandomProblems, EachQuantisedOneEqualsTheReference) {
  test::check_random_row_problems(
      *GetParam(), 150, 31, [](test::Random& random) { return random_norm_text(random, true); }, /*may_refuse=*/true);
}

TEST_P(Norms, RowsOfAMillionElementsMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"m=2:n=1000003:x=bf16:residual=bf16:weight=bf16", "m=1:n=1000000:x=f32:out=e4m3:quant=group"}) {
    const VerifyReport report = run_row_problem(*context, *GetParam(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

TEST_P(Norms, EachRowOfEachSeedMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const InputData data : {InputData::kNormal, InputData::kPositive}) {
      const VerifyReport report =
          run_row_problem(*context, *GetParam(), "m=17:n=3000:x=f32:weight=f32:bias=f32:smooth=f32", "", seed, data);
      EXPECT_TRUE(report.passed) << seed << ": " << report.failure;
    }
  }
}

TEST_P(SlowNorms, EveryCompiledInstanceIsRightOnEveryTail) {
  const std::unique_ptr<Context> context = row_context("on");
  const Operator& op = *GetParam();
  for (const char* text : {"m=8:n=64:x=f16:residual=bf16:weight=bf16:out=f32",
                           "m=8:n=64:x=bf16:out=e2m1:quant=group:scale=e8m0", "m=8:n=64:x=f32:out=e5m2:quant=tensor"}) {
    const std::vector<std::byte> problem = *op.parse_problem(text);
    for (const std::vector<std::byte>& tail : op.tail_problems(problem)) {
      const VerifyReport report = run_row_problem(*context, op, op.problem_text(tail));
      EXPECT_TRUE(report.passed) << op.problem_text(tail) << ": " << report.failure;
    }
  }
}

std::string norm_name(const testing::TestParamInfo<const Operator*>& info) { return std::string(info.param->name()); }
INSTANTIATE_TEST_SUITE_P(All, Norms, testing::Values(&rms_norm_operator(), &layer_norm_operator()), norm_name);
INSTANTIATE_TEST_SUITE_P(All, NormsRandomProblems, testing::Values(&rms_norm_operator(), &layer_norm_operator()),
                         norm_name);
INSTANTIATE_TEST_SUITE_P(All, SlowNorms, testing::Values(&rms_norm_operator(), &layer_norm_operator()), norm_name);

}  // namespace
}  // namespace tilewright
