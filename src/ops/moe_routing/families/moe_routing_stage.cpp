// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstring>

#include "ops/moe_routing/families/moe_routing_families.hpp"

namespace tilewright {

Stage moe_routing_stage(const MoeRoutingProblem& p, long long grid, std::shared_ptr<const LoadedKernel> kernel) {
  MoeRoutingArgs args{};
  args.tokens = p.tokens;
  args.stride_logits = p.stride_logits, args.stride_weights = p.stride_weights, args.stride_ids = p.stride_ids;
  args.experts = static_cast<int>(p.experts), args.k = static_cast<int>(p.k);
  const int64_t groups = p.grouped() ? p.groups : 1;
  args.groups = static_cast<int>(groups), args.group_experts = static_cast<int>(p.experts / groups);
  args.topk_groups = p.grouped() ? static_cast<int>(p.topk_groups) : 1;
  args.first_expert = static_cast<int>(p.first_expert), args.local_experts = static_cast<int>(p.local_experts);
  args.x = p.x, args.bias_dtype = p.bias;
  args.score = p.score, args.group_score = p.group_score;
  args.scored = p.scored(), args.renormalise = p.renormalise != 0;
  args.grid = grid;
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](uint16_t slot, size_t offset) {
    stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  };
  pointer(kRouterLogits, offsetof(MoeRoutingArgs, logits));
  if (p.bias != DType::kNone) pointer(kRouterBias, offsetof(MoeRoutingArgs, bias));
  pointer(kRouterWeights, offsetof(MoeRoutingArgs, weights));
  pointer(kRouterIds, offsetof(MoeRoutingArgs, ids));
  stage.patches.push_back(
      {ArgPatch::Kind::kScalar, kRouterScale, static_cast<uint32_t>(offsetof(MoeRoutingArgs, scale))});
  return stage;
}

}  // namespace tilewright
