// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of moe_routing.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ops/moe_routing/families/moe_routing_families.hpp"
#include "ops/moe_routing/instance/moe_routing_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> router_problem_bytes(const MoeRoutingProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class MoeRoutingOperator final : public Operator {
 public:
  std::string_view name() const override { return "moe_routing"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&moe_routing_cpu_family(), &moe_routing_gpu_family(),
                                                    &moe_routing_generic_family(), &moe_routing_generic_gpu_family()};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef ref) const override {
    MoeRoutingProblem p = problem_cast<MoeRoutingProblem>(ref);
    ProblemSignature s;
    s.sizes = fmt::format("t={}:e={}:k={}", p.tokens, p.experts, p.k);
    s.bucket = fmt::format("t<={}:e={}:k={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.tokens, 1))),
                           p.experts, p.k);
    s.core = fmt::format("x={}:bias={}:score={}:groups={}:topk_groups={}:group_score={}:rows={}", dtype_name(p.x),
                         dtype_name(p.bias), kRouterScoreNames[static_cast<int>(p.score)], p.groups, p.topk_groups,
                         kGroupScoreNames[static_cast<int>(p.group_score)],
                         p.unaligned == 0 && p.stride_logits % kRowPiece == 0 ? "aligned" : "any");
    if (p.programmatic_edge) s.add_programmatic_edge();
    s.epilogue = fmt::format("renormalise={}", p.renormalise);
    return s;
  }
  bool programmatic_edge(ProblemRef ref) const override {
    return problem_cast<MoeRoutingProblem>(ref).programmatic_edge != 0;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_moe_routing_problem(problem_cast<MoeRoutingProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<MoeRoutingProblem> problem = parse_moe_routing_problem(text);
    if (!problem) return problem.status();
    return router_problem_bytes(*problem);
  }
  // An exponential, its place in a sum, and a comparison.
  double operations(ProblemRef ref) const override {
    const auto& p = problem_cast<MoeRoutingProblem>(ref);
    return 3 * static_cast<double>(p.tokens) * static_cast<double>(p.experts);
  }
  double bytes_moved(ProblemRef ref) const override { return moe_routing_bytes(problem_cast<MoeRoutingProblem>(ref)); }
  std::string dtype_text(ProblemRef ref) const override { return dtype_name(problem_cast<MoeRoutingProblem>(ref).x); }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_moe_routing_instance(problem_cast<MoeRoutingProblem>(ref), device, options);
  }

  // One token and a few, blocks that are not full; ties in every one of them come with small integers.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    std::vector<std::vector<std::byte>> tails;
    for (const int64_t tokens : {1, 7, 33, 300}) {
      MoeRoutingProblem p = problem_cast<MoeRoutingProblem>(ref);
      p.tokens = tokens;
      set_contiguous(p);
      tails.push_back(router_problem_bytes(p));
    }
    return tails;
  }
};

}  // namespace

const Operator& moe_routing_operator() {
  static const MoeRoutingOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
