// SPDX-License-Identifier: MIT
// moe_routing through the public API and through dispatch: every score, group, bias, size and stride, ties, NaN, local experts.
#include "tilewright/moe_routing.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::ElementsAre, testing::HasSubstr;

constexpr const char* kGenericRouting = "moe_routing/moe_routing_generic/x86-64/any/run_time=1";

TEST(MoeRouting, EveryScoreSizeAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* sizes : {"t=1:e=1:k=1", "t=5:e=8:k=2", "t=3:e=17:k=17", "t=7:e=60:k=4", "t=4:e=256:k=8",
                            "t=3:e=384:k=32", "t=2:e=1024:k=9"}) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* score : {"softmax", "sigmoid", "sqrt_softplus"}) {
        for (const char* options : {"", ":renormalise=1", ":bias=f32", ":bias=bf16:renormalise=1"}) {
          const std::string text = fmt::format("{}:x={}:score={}{}", sizes, x, score, options);
          for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
            const VerifyReport report = run_row_problem(*context, moe_routing_operator(), text, "", 1, data);
            EXPECT_TRUE(report.passed) << text << ": " << report.failure;
          }
        }
      }
    }
  }
}

// Experts that come in whole pieces are sieved on CPUs with AVX2 before they are put in order.
TEST(MoeRouting, ManyTokensOfWholePiecesOfExpertsMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* sizes :
       {"t=17:e=64:k=6", "t=40:e=96:k=16", "t=33:e=512:k=10", "t=16:e=256:k=8:groups=8:topk_groups=4",
        "t=35:e=64:k=4:groups=2:topk_groups=1", "t=19:e=512:k=8:groups=4:topk_groups=2:group_score=largest"}) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* how : {"softmax", "sigmoid", "sigmoid:bias=f32:renormalise=1", "sqrt_softplus:bias=bf16"}) {
        const std::string text = fmt::format("{}:x={}:score={}", sizes, x, how);
        for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
          const VerifyReport report = run_row_problem(*context, moe_routing_operator(), text, "", 1, data);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

std::string random_routing_text(test::Random& random) {
  const int64_t groups = test::chance(random, 0.5) ? 1 : test::pick(random, 2, 32);
  const int64_t size = test::pick(random, 1, std::min<int64_t>(1024 / groups, 100)), experts = groups * size;
  const int64_t open = test::pick(random, 1, groups), k = test::pick(random, 1, std::min<int64_t>(open * size, 32));
  std::string text = fmt::format("t={}:e={}:k={}:x={}:score={}", test::pick(random, 1, 70), experts, k,
                                 test::pick_one(random, {"f32", "f16", "bf16"}),
                                 test::pick_one(random, {"softmax", "sigmoid", "sqrt_softplus"}));
  if (test::chance(random, 0.4)) text += ":bias=" + test::pick_one(random, {"f32", "f16", "bf16"});
  if (test::chance(random, 0.5)) text += ":renormalise=1";
  if (groups > 1) {
    text += fmt::format(":groups={}:topk_groups={}:group_score={}", groups, open,
                        test::pick_one(random, {"largest", "two_largest"}));
  }
  if (test::chance(random, 0.3)) {
    const int64_t first = test::pick(random, 0, experts - 1);
    text += fmt::format(":first={}:local={}", first, test::pick(random, 1, experts - first));
  }
  if (test::chance(random, 0.3)) text += fmt::format(":sx={}", experts + test::pick(random, 0, 9));
  if (test::chance(random, 0.2)) text += fmt::format(":sw={}:si=-{}", k + 3, k);
  return text;
}

TEST(MoeRoutingRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(moe_routing_operator(), 300, 57, random_routing_text);
}

struct Routed {
  std::vector<int> ids;
  std::vector<float> weights;
};
// One token's choice.
template <class Change>
Routed route(Context& context, std::vector<float> logits, int64_t k, const char* recipe, Change&& change) {
  Routed to{std::vector<int>(static_cast<size_t>(k), -7), std::vector<float>(static_cast<size_t>(k), -7)};
  MoeRoutingCall call;
  call.logits = TensorView::contiguous(logits.data(), DType::kF32, {1, static_cast<int64_t>(logits.size())});
  call.weights = TensorView::contiguous(to.weights.data(), DType::kF32, {1, k});
  call.ids = TensorView::contiguous(to.ids.data(), DType::kI32, {1, k});
  call.recipe = recipe;
  change(call);
  const Status status = moe_routing(context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return to;
}

TEST(MoeRouting, TiesGoToTheLowerNumberAndWeightsAreTheScores) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericRouting}) {
    const Routed plain = route(*context, {1, 3, -0.0f, 3, 0, 2}, 6, recipe, [](MoeRoutingCall&) {});
    EXPECT_THAT(plain.ids, ElementsAre(1, 3, 5, 0, 2, 4));
    const double sum = 2 * std::exp(3) + std::exp(2) + std::exp(1) + 2;
    EXPECT_NEAR(plain.weights[0], std::exp(3) / sum, 1e-6);
    EXPECT_NEAR(plain.weights[5], 1 / sum, 1e-6);
    const Routed two = route(*context, {0, 0, 1, 0}, 2, recipe, [](MoeRoutingCall& c) {
      c.score = RouterScore::kSigmoid, c.renormalise = true, c.scale = 2;
    });
    EXPECT_THAT(two.ids, ElementsAre(2, 0));
    const double large = 1 / (1 + std::exp(-1.0));
    EXPECT_NEAR(two.weights[0], 2 * large / (large + 0.5), 1e-6);
    EXPECT_NEAR(two.weights[1], 1 / (large + 0.5), 1e-6);
    const Routed root =
        route(*context, {-30, 0, 200}, 3, recipe, [](MoeRoutingCall& c) { c.score = RouterScore::kSqrtSoftplus; });
    EXPECT_THAT(root.ids, ElementsAre(2, 1, 0));
    EXPECT_NEAR(root.weights[0], std::sqrt(200.0), 1e-5);
    EXPECT_NEAR(root.weights[1], std::sqrt(std::log(2.0)), 1e-6);
    EXPECT_NEAR(root.weights[2], std::exp(-15.0), 1e-12);
  }
}

// f32 whose upper bits are the same: those that are chosen, those around the last one chosen, and those that are left.
TEST(MoeRouting, LogitsThatDifferInTheirLastBitsAreToldApart) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericRouting}) {
    for (const int near : {40, 8, 5}) {
      for (const int k : {1, 3, 4, 5, 8, 9}) {
        std::vector<float> logits(40, 0.0f);
        std::vector<int> best(40);
        for (int i = 0; i < 40; ++i) {
          // The i-th best is expert 7 i + 3 of 40; `near` of them are neighbours.
          const int expert = (7 * i + 3) % 40;
          best[static_cast<size_t>(i)] = expert;
          logits[static_cast<size_t>(expert)] =
              i < near ? 2.0f - 0x1p-23f * static_cast<float>(i) : 1.0f - static_cast<float>(i);
        }
        const Routed found = route(*context, logits, k, recipe, [](MoeRoutingCall&) {});
        EXPECT_THAT(found.ids, testing::ElementsAreArray(best.begin(), best.begin() + k)) << near << " near, " << k;
      }
    }
  }
}

// A bias below every score: where other groups are masked with 0, one of theirs would win.
TEST(MoeRouting, BiasedScoresBelowZeroStayWithinTheirGroups) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericRouting}) {
    std::vector<float> bias = {-5, -5, -4, -4.5f, -9, -9};
    const Routed to = route(*context, {0, 0, 0, 0, 0, 0}, 2, recipe, [&](MoeRoutingCall& c) {
      c.score = RouterScore::kSigmoid, c.bias = TensorView::contiguous(bias.data(), DType::kF32, {6});
      c.groups = 3, c.topk_groups = 1;
    });
    EXPECT_THAT(to.ids, ElementsAre(2, 3));
    EXPECT_THAT(to.weights, ElementsAre(0.5f, 0.5f));
    // Of two groups with the same score the lower one.
    const Routed tied = route(*context, {0, 1, 0, 1}, 2, recipe, [&](MoeRoutingCall& c) {
      c.groups = 2, c.topk_groups = 1, c.group_score = GroupScore::kLargest;
    });
    EXPECT_THAT(tied.ids, ElementsAre(1, 0));
  }
}

TEST(MoeRouting, ExpertsOfOtherRanksAreMarked) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericRouting}) {
    const Routed to = route(*context, {5, 1, 4, 3, 2}, 4, recipe, [](MoeRoutingCall& c) {
      c.score = RouterScore::kSigmoid, c.first_expert = 2, c.local_experts = 2;
    });
    EXPECT_THAT(to.ids, ElementsAre(-1, 0, 1, -1));
    EXPECT_EQ(to.weights[0], 0);
    EXPECT_NEAR(to.weights[1], 1 / (1 + std::exp(-4.0)), 1e-6);
    EXPECT_EQ(to.weights[3], 0);
  }
}

TEST(MoeRouting, NaNIsChosenLastAndNumbersStayValid) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericRouting}) {
    const auto sigmoid = [](MoeRoutingCall& c) { c.score = RouterScore::kSigmoid; };
    Routed to = route(*context, {kNaN, 1, -kInf, kInf, 0}, 5, recipe, sigmoid);
    EXPECT_THAT(to.ids, ElementsAre(3, 1, 4, 0, 2));
    EXPECT_EQ(to.weights[0], 1);
    EXPECT_TRUE(std::isnan(to.weights[3]));
    EXPECT_EQ(to.weights[4], 0);
    // The sum of all takes part in each weight, but where only the chosen count.
    to = route(*context, {kNaN, 1, 0}, 2, recipe, [](MoeRoutingCall&) {});
    EXPECT_THAT(to.ids, ElementsAre(1, 2));
    EXPECT_TRUE(std::isnan(to.weights[0]) && std::isnan(to.weights[1]));
    to = route(*context, {kNaN, 1, 1}, 2, recipe, [](MoeRoutingCall& c) { c.renormalise = true; });
    EXPECT_THAT(to.weights, ElementsAre(0.5f, 0.5f));
    to = route(*context, {kNaN, kNaN, kNaN}, 2, recipe, sigmoid);
    EXPECT_THAT(to.ids, ElementsAre(0, 1));
  }
}

TEST(MoeRouting, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float logits[64] = {}, weights[64] = {};
  int ids[64] = {};
  const auto refusal = [&](auto&& change) {
    MoeRoutingCall call;
    call.logits = TensorView::contiguous(logits, DType::kF32, {4, 8});
    call.weights = TensorView::contiguous(weights, DType::kF32, {4, 2});
    call.ids = TensorView::contiguous(ids, DType::kI32, {4, 2});
    change(call);
    const Status status = moe_routing(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.ids = {}; }), "moe_routing: argument 'ids' is missing");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) {
              c.weights = TensorView::contiguous(weights, DType::kF32, {4, 9});
              c.ids = TensorView::contiguous(ids, DType::kI32, {4, 9});
            }),
            "moe_routing: argument 'k' is 9, allowed: 1 to 8, the experts that may be chosen from");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.groups = 3; }),
            "moe_routing: argument 'groups' is 3, allowed: 1 to 32 that divide 8 experts");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.groups = 8, c.topk_groups = 1; }),
            "moe_routing: argument 'k' is 2, allowed: 1 to 1, the experts that may be chosen from");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.weights.dtype = DType::kF16; }),
            "moe_routing: argument 'weights' is f16, allowed: f32");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.first_expert = 4, c.local_experts = 5; }),
            "moe_routing: local experts are 5 from 4 on, allowed: within 8");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.weights.data = logits; }),
            "moe_routing: argument 'weights' overlaps 'logits'");
  EXPECT_EQ(refusal([&](MoeRoutingCall& c) { c.scale = NAN; }),
            "moe_routing: argument 'scale' is nan, allowed: finite numbers");
  EXPECT_THAT(moe_routing_operator().parse_problem("t=1:e=2000:k=1:x=f32").status().message(),
              HasSubstr("2000 experts, allowed: 1 to 1024"));
}

TEST(MoeRouting, NoTokensWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  MoeRoutingCall call;
  call.logits = TensorView::contiguous(nullptr, DType::kBf16, {0, 8});
  call.weights = TensorView::contiguous(nullptr, DType::kF32, {0, 2});
  call.ids = TensorView::contiguous(nullptr, DType::kI32, {0, 2});
  const Status status = moe_routing(*context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(moe_routing_prepare(*context, call).ok());
}

}  // namespace
}  // namespace tilewright
