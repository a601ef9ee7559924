// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of top_k.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ops/op_list.hpp"
#include "ops/top_k/families/top_k_families.hpp"
#include "ops/top_k/instance/top_k_instance.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> top_k_problem_bytes(const TopKProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class TopKOperator final : public Operator {
 public:
  std::string_view name() const override { return "top_k"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&top_k_cpu_family(), &top_k_gpu_family(), &top_k_generic_family(),
                                                    &top_k_generic_gpu_family()};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef ref) const override {
    const auto& p = problem_cast<TopKProblem>(ref);
    ProblemSignature s;
    s.sizes = fmt::format("m={}:n={}:k={}", p.rows, p.n, p.k);
    s.bucket =
        fmt::format("m<={}:n={}:k={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.rows, 1))), p.n, p.k);
    s.core = fmt::format("x={}:lengths={}:rows={}", dtype_name(p.x), p.lengths,
                         p.unaligned == 0 && p.stride % kRowPiece == 0 ? "aligned" : "any");
    s.epilogue = fmt::format("values={}", p.values);
    return s;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_top_k_problem(problem_cast<TopKProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<TopKProblem> problem = parse_top_k_problem(text);
    if (!problem) return problem.status();
    return top_k_problem_bytes(*problem);
  }
  // A comparison.
  double operations(ProblemRef ref) const override {
    const auto& p = problem_cast<TopKProblem>(ref);
    return static_cast<double>(p.rows) * static_cast<double>(p.n);
  }
  double bytes_moved(ProblemRef ref) const override { return top_k_bytes(problem_cast<TopKProblem>(ref)); }
  std::string dtype_text(ProblemRef ref) const override { return dtype_name(problem_cast<TopKProblem>(ref).x); }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_top_k_instance(problem_cast<TopKProblem>(ref), device, options);
  }

  // Fewer than k, part of a piece, of a chunk, a chunk and one more.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    std::vector<std::vector<std::byte>> tails;
    for (const int64_t n : {0, 1, 5, 1000, kTopKChunk + 1, 2 * kTopKChunk + 1003}) {
      TopKProblem p = problem_cast<TopKProblem>(ref);
      p.rows = 7, p.n = n;
      set_contiguous(p);
      tails.push_back(top_k_problem_bytes(p));
    }
    return tails;
  }
};

}  // namespace

const Operator& top_k_operator() {
  static const TopKOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
