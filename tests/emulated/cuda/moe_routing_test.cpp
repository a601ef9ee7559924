// SPDX-License-Identifier: MIT
// moe_routing_gpu, the source that NVRTC compiles, on the host: beside the reference, and with a sieve beside itself without one, among logits that a
// sieve cannot bound, lists that are full, and those that are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "moe_routing/moe_routing_gpu.cuh"

namespace tilewright {
namespace {

using emulated::check_family, emulated::HostKernel;

constexpr DType kNone = DType::kNone, kBf16 = DType::kBf16, kF32 = DType::kF32, kF16 = DType::kF16;

template <MoeRoutingGpuConfig kConfig>
void check_moe_routing(std::initializer_list<const char*> problems) {
  const auto kernel = std::make_shared<HostKernel>(
      [](const void* args) { moe_routing_gpu<kConfig>(*static_cast<const MoeRoutingArgs*>(args)); });
  const Operator& op = moe_routing_operator();
  const bool generic = kConfig.x == kNone;
  const KernelFamily& family = *find_family(op.families(), generic ? "moe_routing_generic_gpu" : "moe_routing_gpu");
  RecipeStep step;
  step.key = generic ? family.builtin_keys("sm_90a").front()
                     : make_key(op.name(), family.name(), "sm_90a", fmt::format("x={}", dtype_name(kConfig.x)),
                                print_fields(kConfig));
  for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
    check_family(op, family, step, kernel, problems, data);
  }
}

TEST(EmulatedRowOperators, MoeRoutingChoosesAsTheReference) {
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 8, 32, 1, false, true}>(
      {"t=33:e=256:k=8:x=bf16", "t=65:e=256:k=8:x=bf16:renormalise=1", "t=1:e=256:k=1:x=bf16:score=sigmoid"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 8, 32, 1, false, true, 8}>(
      {"t=33:e=256:k=8:x=bf16", "t=65:e=256:k=5:x=bf16:renormalise=1"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 8, 32, 1, false, true, 8, 2}>(
      {"t=33:e=256:k=8:x=bf16", "t=65:e=256:k=5:x=bf16:renormalise=1", "t=6:e=256:k=1:x=bf16:score=sigmoid"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 8, 24, 1, false, true, 8, 2}>({"t=33:e=192:k=6:x=bf16"});
  check_moe_routing<MoeRoutingGpuConfig{kF16, 4, 4, 32, 2, false, true, 8, 4}>({"t=70:e=128:k=7:x=f16"});
  check_moe_routing<MoeRoutingGpuConfig{kF16, 8, 8, 16, 1, false, true, 8, 2}>(
      {"t=300:e=128:k=8:x=f16:sx=136:first=5:local=33"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 8, 16, 1, false, true, 4, 2}>(
      {"t=33:e=128:k=4:x=bf16:renormalise=1", "t=65:e=128:k=1:x=bf16"});
  check_moe_routing<MoeRoutingGpuConfig{kF32, 8, 8, 32, 1, true, true, 8, 2}>(
      {"t=33:e=256:k=8:x=f32", "t=65:e=256:k=5:x=f32:renormalise=1", "t=9:e=256:k=3:x=f32:score=sigmoid:bias=f32"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 1, 32, 1, true, true, 8, 4}>(
      {"t=33:e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1",
       "t=9:e=256:k=6:x=bf16:groups=8:topk_groups=1:group_score=largest"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 1, 32, 1, true, true, 8, 4, true, RouterScore::kSigmoid, kF32, true}>(
      {"t=33:e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1"});
  check_moe_routing<MoeRoutingGpuConfig{kF32, 8, 8, 32, 1, true, true, 8, 2, true, RouterScore::kSoftmax, kBf16, true}>(
      {"t=33:e=256:k=8:x=f32:bias=bf16"});
  check_moe_routing<MoeRoutingGpuConfig{kF32, 8, 2, 24, 1, true, true, 4, 2}>(
      {"t=37:e=192:k=4:x=f32:score=sqrt_softplus:bias=bf16:groups=4:topk_groups=3:first=7:local=90"});
  check_moe_routing<MoeRoutingGpuConfig{kF16, 2, 1, 24, 4, false, false, 8}>(
      {"t=70:e=42:k=8:x=f16:groups=2:topk_groups=1:group_score=largest", "t=9:e=24:k=8:x=f16", "t=3:e=9:k=7:x=f16"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 8, 16, 1, false, true, 4}>(
      {"t=33:e=128:k=4:x=bf16:renormalise=1", "t=65:e=128:k=1:x=bf16"});
  check_moe_routing<MoeRoutingGpuConfig{kF32, 1, 1, 8, 4, true, false, 4}>(
      {"t=9:e=7:k=2:x=f32:score=sigmoid:bias=f32"});
  check_moe_routing<MoeRoutingGpuConfig{kF32, 8, 8, 32, 1, true, true, 8}>(
      {"t=33:e=256:k=8:x=f32", "t=9:e=256:k=3:x=f32:score=sigmoid:bias=f32"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 4, 4, 24, 8, false, false}>(
      {"t=70:e=77:k=32:x=bf16:score=sqrt_softplus:first=5:local=33", "t=3:e=90:k=31:x=bf16:sx=91"});
  check_moe_routing<MoeRoutingGpuConfig{kBf16, 8, 1, 32, 1, true, true}>(
      {"t=33:e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1",
       "t=9:e=256:k=6:x=bf16:groups=8:topk_groups=1:group_score=largest"});
  check_moe_routing<MoeRoutingGpuConfig{kF32, 1, 1, 8, 8, true, false}>(
      {"t=300:e=8:k=2:x=f32:renormalise=1", "t=257:e=7:k=7:x=f32:bias=f16"});
  check_moe_routing<MoeRoutingGpuConfig{kNone, 32, 32, 64, 1, true, false}>(
      {"t=9:e=1024:k=32:x=f32", "t=3:e=333:k=5:x=f16:bias=bf16:score=sigmoid"});
}

constexpr int kExperts = 256, kChosen = 8, kTokens = 40;  // 40: not whole warps

struct Routed {
  std::vector<int> ids = std::vector<int>(kTokens * kChosen, -9);
  std::vector<float> weights = std::vector<float>(kTokens * kChosen, -9);
};

template <MoeRoutingGpuConfig kConfig>
Routed route(MoeRoutingArgs args) {
  Routed to;
  args.weights = to.weights.data(), args.ids = to.ids.data();
  args.grid = 2;
  const char* const failure =
      emulated::run_grid(2, kRouterThreads, router_shared_bytes(kConfig), [&] { moe_routing_gpu<kConfig>(args); });
  EXPECT_STREQ(failure, "");
  return to;
}

MoeRoutingArgs arguments(const void* logits, DType x, RouterScore score) {
  MoeRoutingArgs args = {};
  args.tokens = kTokens, args.logits = logits, args.stride_logits = kExperts;
  args.stride_weights = args.stride_ids = kChosen;
  args.experts = args.group_experts = args.local_experts = kExperts, args.k = kChosen;
  args.groups = args.topk_groups = 1;
  args.scale = 1, args.x = x, args.score = score, args.renormalise = true;
  return args;
}

// Rows by turns of every kind that a choice may meet.
std::vector<float> logits() {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> all(kTokens * kExperts);
  for (int token = 0; token < kTokens; ++token) {
    const auto numbers = [&](int count, float other) {  // `count` numbers anywhere, the others alike
      std::vector<float> row(kExperts, other);
      for (int i = 0; i < count; ++i) row[i] = normal(random);
      std::shuffle(row.begin(), row.end(), random);
      return row;
    };
    std::vector<float> row = numbers(kExperts, 0);
    switch (token % 13) {
      case 0: row = numbers(0, kNaN); break;
      case 1: row = numbers(0, -kInf); break;
      case 2: row = numbers(1, kNaN); break;
      case 3: row = numbers(kChosen - 1, kNaN); break;
      case 4: row = numbers(kChosen, -kInf); break;
      case 5: row = numbers(0, 1); break;                                // all alike
      case 6: row = numbers(kExperts - 33, 9); break;                    // one more than is listed are the largest
      case 7: row = numbers(kExperts - 20, 9); break;                    // more than half of it
      case 8: row = numbers(kExperts - 3, kInf); break;                  // three are infinite
      case 9: row = numbers(9, -0.0f), row[3] = row[200] = 0.0f; break;  // zeros of both signs
      case 10: std::sort(row.begin(), row.end()); break;                 // all of the chosen in one lane's pieces
      case 11: row[17] = row[99] = kNaN; break;
      default: break;
    }
    std::copy(row.begin(), row.end(), all.begin() + token * kExperts);
  }
  return all;
}

void expect_alike(const Routed& sieved, const Routed& plain) {
  for (int i = 0; i < kTokens * kChosen; ++i) {
    SCOPED_TRACE(i / kChosen);  // the token
    EXPECT_EQ(sieved.ids[i], plain.ids[i]);
    if (plain.weights[i] == plain.weights[i]) {
      EXPECT_EQ(sieved.weights[i], plain.weights[i]);
    } else {
      EXPECT_NE(sieved.weights[i], sieved.weights[i]);
    }
  }
}

TEST(EmulatedRouterSieve, PairsOfLogitsAreChosenAsWithoutIt) {
  std::vector<unsigned short> words;
  for (float x : logits()) words.push_back(static_cast<unsigned short>(std::bit_cast<unsigned>(x) >> 16));
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    const MoeRoutingArgs args = arguments(words.data(), kBf16, score);
    const Routed plain = route<MoeRoutingGpuConfig{kBf16, 8, 8, 32, 1, false, true, 8}>(args);
    expect_alike(route<MoeRoutingGpuConfig{kBf16, 8, 8, 32, 1, false, true, 8, 2}>(args), plain);
    MoeRoutingArgs fewer = args;
    fewer.experts = fewer.group_experts = fewer.local_experts = kExperts / 2;
    expect_alike(route<MoeRoutingGpuConfig{kBf16, 4, 4, 32, 2, false, true, 8, 4}>(fewer),
                 route<MoeRoutingGpuConfig{kBf16, 8, 8, 16, 1, false, true, 8}>(fewer));
  }
}

TEST(EmulatedRouterSieve, ValuesOfF32AreChosenAsWithoutIt) {
  const std::vector<float> values = logits();
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSqrtSoftplus}) {
    const MoeRoutingArgs args = arguments(values.data(), kF32, score);
    const Routed plain = route<MoeRoutingGpuConfig{kF32, 8, 8, 32, 1, true, true, 8}>(args);
    expect_alike(route<MoeRoutingGpuConfig{kF32, 8, 8, 32, 1, true, true, 8, 2}>(args), plain);
  }
}

TEST(EmulatedRouterSieve, ScoresInGroupsAreChosenAsWithoutIt) {
  const std::vector<float> values = logits();
  std::vector<float> bias(kExperts);
  for (int i = 0; i < kExperts; ++i) bias[i] = static_cast<float>(i % 11) * 0.125f - 0.5f;
  for (const int open : {1, 4, 8}) {
    MoeRoutingArgs args = arguments(values.data(), kF32, RouterScore::kSigmoid);
    args.bias = bias.data(), args.bias_dtype = kF32, args.scored = true;
    args.groups = 8, args.group_experts = kExperts / 8, args.topk_groups = open;
    args.group_score = GroupScore::kTwoLargest;
    const Routed plain = route<MoeRoutingGpuConfig{kF32, 8, 1, 32, 1, true, true, 8}>(args);
    expect_alike(route<MoeRoutingGpuConfig{kF32, 8, 1, 32, 1, true, true, 8, 4}>(args), plain);
  }
}

}  // namespace
}  // namespace tilewright
