// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of apply_penalties.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ops/apply_penalties/families/apply_penalties_families.hpp"
#include "ops/apply_penalties/instance/apply_penalties_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> apply_penalties_problem_bytes(const ApplyPenaltiesProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class ApplyPenaltiesOperator final : public Operator {
 public:
  std::string_view name() const override { return "apply_penalties"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&apply_penalties_cpu_family(), &apply_penalties_gpu_family(),
                                                    &apply_penalties_generic_family(),
                                                    &apply_penalties_generic_gpu_family()};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef ref) const override {
    const auto& p = problem_cast<ApplyPenaltiesProblem>(ref);
    ProblemSignature s;
    s.sizes = fmt::format("b={}:v={}", p.rows, p.n);
    s.bucket = fmt::format("b<={}:v={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.rows, 1))), p.n);
    s.core =
        fmt::format("x={}:counts={}:in_place={}", dtype_name(p.x), p.seen[0].counts | p.seen[1].counts, p.in_place);
    s.epilogue = "none";
    return s;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_apply_penalties_problem(problem_cast<ApplyPenaltiesProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<ApplyPenaltiesProblem> problem = parse_apply_penalties_problem(text);
    if (!problem) return problem.status();
    return apply_penalties_problem_bytes(*problem);
  }
  // A product and two differences.
  double operations(ProblemRef ref) const override {
    const auto& p = problem_cast<ApplyPenaltiesProblem>(ref);
    return 3 * static_cast<double>(p.rows) * static_cast<double>(p.n);
  }
  double bytes_moved(ProblemRef ref) const override {
    return apply_penalties_bytes(problem_cast<ApplyPenaltiesProblem>(ref));
  }
  std::string dtype_text(ProblemRef ref) const override {
    return dtype_name(problem_cast<ApplyPenaltiesProblem>(ref).x);
  }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_apply_penalties_instance(problem_cast<ApplyPenaltiesProblem>(ref), device, options);
  }

  // Part of a piece, of a chunk, a chunk and one more.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    std::vector<std::vector<std::byte>> tails;
    for (const int64_t n : {1, 5, 1000, kPenaltyChunk + 1, 2 * kPenaltyChunk + 1003}) {
      ApplyPenaltiesProblem p = problem_cast<ApplyPenaltiesProblem>(ref);
      p.rows = 7, p.n = n;
      set_contiguous(p);
      tails.push_back(apply_penalties_problem_bytes(p));
    }
    return tails;
  }
};

}  // namespace

const Operator& apply_penalties_operator() {
  static const ApplyPenaltiesOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
