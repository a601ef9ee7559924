// SPDX-License-Identifier: MIT
// Random grouped problems: groups of every spread, indices, strides, types, scales and epilogues. Each equals the reference
// and leaves everything else in D alone. TILEWRIGHT_TEST_PROBLEMS sets their number, TILEWRIGHT_TEST_FIRST the first one's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/op_list.hpp"
#include "support/random_choice.hpp"

namespace tilewright {
namespace {

using test::chance, test::from_environment, test::pick, test::Random;

template <size_t kCount>
const char* pick_one(Random& random, const char* const (&list)[kCount]) {
  return list[pick(random, 0, kCount - 1)];
}
int64_t pick_grouped_size(Random& random, int64_t most) {
  const double weight = std::uniform_real_distribution<>(0, 1)(random);
  return weight < 0.03 ? 0 : weight < 0.12 ? 1 : pick(random, 2, weight < 0.6 ? most / 4 : most);
}

// Types of A and B, and scales that they may have.
constexpr const char* kTypes[] = {"a=f32",           "a=bf16",
                                  "a=f16",           "a=i8",
                                  "a=e4m3",          "a=e5m2",
                                  "a=e4m3:b=e5m2",   "a=bf16:b=e4m3",
                                  "a=f16:d=f32",     "a=bf16:d=f32",
                                  "a=i8:d=f32",      "a=i8:scale_a=f32:scale_b=f32",
                                  "a=e4m3:alpha=1",  "a=bf16:layout=rrr",
                                  "a=f16:layout=crr"};
constexpr const char* kBlockTypes[] = {"a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
                                       "a=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
                                       "a=bf16:b=e2m1:scale_b=e8m0.1x32",
                                       "a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
                                       "a=i8:scale_a=bf16.1x64:scale_b=f16.1x64",
                                       "a=bf16:b=u4:scale_b=f16.1x32:zero_b=u4",
                                       "a=e4m3:scale_a=f32.128x128:scale_b=f32.128x128",
                                       "a=bf16:b=i4:scale_b=f16.1x128",
                                       "a=f16:b=i8:scale_b=f32.1x64"};
constexpr const char* kEpilogues[] = {"",
                                      ":bias=f32",
                                      ":act=gelu",
                                      ":c=f32:act=relu",
                                      ":gate=interleaved:act=silu",
                                      ":gate=separated:act=gelu_tanh:bias=bf16",
                                      ":steps=add.bf16+act.relu",
                                      ":steps=mul.f32:alpha=1"};
constexpr const char* kExtents[] = {"sizes", "offsets", "ends", "both"};

std::string random_text(Random& random) {
  const int64_t groups = chance(random, 0.05) ? 256 : chance(random, 0.2) ? 1 : pick(random, 2, 12);
  std::string mode = pick_one(random, {"contiguous", "masked", "ragged_k"});
  int64_t m = pick_grouped_size(random, 150), n = pick_grouped_size(random, 130), k = pick_grouped_size(random, 200);
  if (mode == "masked") m = pick_grouped_size(random, 50);
  std::string types = pick_one(random, kTypes), epilogue = pick_one(random, kEpilogues);
  if (mode != "ragged_k" && chance(random, 0.3)) types = pick_one(random, kBlockTypes);
  if (types.find("alpha") != std::string::npos && epilogue.find("alpha") != std::string::npos) epilogue = "";
  if (epilogue.find("gate") != std::string::npos) n += n % 2;
  std::string text = fmt::format("mode={}:groups={}:m={}:n={}:k={}:{}{}", mode, groups, m, n, k, types, epilogue);
  if (chance(random, 0.8)) text += ":status=1";
  // A bias for each group.
  if (const size_t at = text.find("bias=f32"); at != std::string::npos && groups > 1 && n > 1 && chance(random, 0.7)) {
    text.insert(at + 8, fmt::format(".{}.0.1", n));
  }
  if (mode != "masked" && chance(random, 0.7)) text += fmt::format(":extents={}", pick_one(random, kExtents));
  if (mode != "masked" && text.find("extents") == std::string::npos && chance(random, 0.4)) {
    text += fmt::format(":align_rows={}", pick(random, 2, 16));
  }
  if (mode == "contiguous" && chance(random, 0.3)) text += fmt::format(":gather={}", pick_grouped_size(random, 200));
  if (mode == "contiguous" && chance(random, 0.3)) text += fmt::format(":scatter={}", pick_grouped_size(random, 200));
  if (chance(random, 0.2)) text += fmt::format(":rows={}", pick(random, 1, 40));
  if (chance(random, 0.2) && mode != "ragged_k" && n > 0) {
    text += fmt::format(":sd={}.{}.1", m * (n + 3), n + 3);
  }
  return text;
}

TEST(GroupedGemmRandomProblems, EachIsRefusedWithAReasonOrEqualsTheReference) {
  const int count = test::random_problems(120);
  const int first = from_environment("TILEWRIGHT_TEST_FIRST", 0);
  ContextOptions options;
  options.jit = "off";
  options.user_tables = false;
  options.cpu_units = 3;
  Result<std::unique_ptr<Context>> context = Context::create(options);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Operator& op = grouped_gemm_operator();
  ContextImpl& impl = (*context)->impl();
  int refused = 0;
  for (int i = first; i < first + count; ++i) {
    Random random(static_cast<uint64_t>(i) * 7919 + 29);
    const std::string text = random_text(random);
    SCOPED_TRACE(fmt::format("number {}: {}", i, text));
    const Result<std::vector<std::byte>> problem = op.parse_problem(text);
    if (!problem.ok()) {
      EXPECT_EQ(problem.status().code(), StatusCode::kInvalidArgument) << problem.status().to_string();
      ++refused;
      continue;
    }
    const std::string printed = op.problem_text(*problem);
    const Result<std::vector<std::byte>> again = op.parse_problem(printed);
    ASSERT_TRUE(again.ok()) << printed << ": " << again.status().to_string();
    EXPECT_EQ(*again, *problem) << printed;

    auto instance = op.instantiate(*problem, impl.device(), {});
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    // Any kernel that takes the problem.
    const auto choices = impl.dispatcher().choices(op, *problem, impl.spec(0), TunedTable(), "", nullptr);
    ASSERT_TRUE(choices.ok()) << choices.status().to_string();
    std::vector<std::string> built;
    for (const Choice& choice : *choices) {
      if (impl.dispatcher().built(op, choice.recipe)) built.push_back(print_recipe(op.families(), choice.recipe));
    }
    ASSERT_FALSE(built.empty());
    const std::string recipe = built[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(built.size()) - 1))];
    (*instance)->fill(static_cast<uint64_t>(pick(random, 0, 100)), static_cast<InputData>(pick(random, 0, 2)));
    (*instance)->poison();
    const Status status = impl.run(op, *problem, (*instance)->bindings(), {}, recipe);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const VerifyReport report = (*instance)->verify();
    ASSERT_TRUE(report.passed) << recipe << ": " << report.failure;
  }
  EXPECT_LT(refused, count / 5);
}

}  // namespace
}  // namespace tilewright
