// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of grouped_gemm.
#include <algorithm>
#include <array>

#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "ops/grouped_gemm/instance/grouped_gemm_instance.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

const GroupedGemmProblem& problem_of(ProblemRef ref) { return problem_cast<GroupedGemmProblem>(ref); }

class GroupedGemmOperator final : public Operator {
 public:
  std::string_view name() const override { return "grouped_gemm"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&grouped_gemm_cpu_family(),     &grouped_dequant_cpu_family(),
                                                    &grouped_gemm_sm90_family(),    &grouped_sm90_dequant_family(),
                                                    &grouped_gemm_generic_family(), &grouped_gemm_generic_gpu_family()};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef ref) const override { return grouped_gemm_signature(problem_of(ref)); }
  std::string problem_text(ProblemRef ref) const override { return print_grouped_gemm_problem(problem_of(ref)); }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<GroupedGemmProblem> problem = parse_grouped_gemm_problem(text);
    if (!problem) return problem.status();
    return bytes_of(*problem);
  }
  double operations(ProblemRef ref) const override { return grouped_gemm_operations(problem_of(ref)); }
  double bytes_moved(ProblemRef ref) const override { return grouped_gemm_bytes_moved(problem_of(ref)); }
  bool programmatic_edge(ProblemRef ref) const override { return problem_of(ref).gemm.programmatic_edge != 0; }
  DType multiplied_dtype(ProblemRef ref) const override {
    const GemmProblem& g = problem_of(ref).gemm;
    return dtype_bits(g.b_dtype) > dtype_bits(g.a_dtype) ? g.b_dtype : g.a_dtype;
  }
  std::string dtype_text(ProblemRef ref) const override {
    const GemmProblem& g = problem_of(ref).gemm;
    const std::string a = dtype_name(g.a_dtype);
    return g.a_dtype == g.b_dtype ? a : a + "x" + dtype_name(g.b_dtype);
  }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_grouped_gemm_instance(problem_of(ref), device, options);
  }

  // Several groups with tails, one group, and more groups than rows.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    const GroupedGemmProblem& p = problem_of(ref);
    const int64_t even = p.gemm.gate == GateMode::kNone ? 1 : 2;  // a gated N stays even
    std::vector<std::vector<std::byte>> tails;
    for (const auto& [groups, m, n, k] : {std::array<int64_t, 4>{5, 133, 97, 259},
                                          {1, 33, 65, 127},
                                          {1, 1, 1, 1},
                                          {40, 17, 31, 65},
                                          {3, 70, 160, 130}}) {
      tails.push_back(bytes_of(resize_grouped_gemm_problem(p, groups, m, (n + even - 1) / even * even, k)));
    }
    return tails;
  }

 private:
  static std::vector<std::byte> bytes_of(const GroupedGemmProblem& problem) {
    const ProblemRef ref = erase(problem);
    return {ref.begin(), ref.end()};
  }
};

}  // namespace

const Operator& grouped_gemm_operator() {
  static const GroupedGemmOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
