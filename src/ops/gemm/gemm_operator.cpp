// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of gemm.
#include <cstring>

#include "ops/gemm/export/gemm_description.hpp"
#include "ops/gemm/families/cpu/gemm_pack_cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gemm_pack_gpu_family.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

class GemmOperator final : public Operator {
 public:
  std::string_view name() const override { return "gemm"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&gemm_cpu_family(),
                                                    &gemm_dequant_cpu_family(),
                                                    &gemv_cpu_family(),
                                                    &gemv_dequant_cpu_family(),
                                                    &gemv_dequant_packed_cpu_family(),
                                                    &gemm_sm90_family(),
                                                    &gemm_sm90_skinny_family(),
                                                    &gemm_sm90_dequant_family(),
                                                    &gemm_sm90_dequant_many_family(),
                                                    &gemv_gpu_family(),
                                                    &gemv_dot_gpu_family(),
                                                    &gemv_dequant_gpu_family(),
                                                    &gemm_portable_family(),
                                                    &gemm_cublaslt_family(),
                                                    &gemm_amd_family(),
                                                    &gemv_amd_family(),
                                                    &gemm_generic_family(),
                                                    &gemm_generic_gpu_family()};
    return kFamilies;
  }
  std::span<const KernelFamily* const> helper_families() const override {
    static const KernelFamily* const kFamilies[] = {&gemm_pack_cpu_family(), &gemm_pack_amd().family,
                                                    &gemm_pack_fragments().family};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef problem) const override {
    return gemm_signature(problem_cast<GemmProblem>(problem));
  }
  std::string problem_text(ProblemRef problem) const override {
    return print_gemm_problem(problem_cast<GemmProblem>(problem));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<GemmProblem> problem = parse_gemm_problem(text);
    if (!problem) return problem.status();
    return bytes_of(*problem);
  }
  double operations(ProblemRef problem) const override { return gemm_operations(problem_cast<GemmProblem>(problem)); }
  double bytes_moved(ProblemRef problem) const override { return gemm_bytes_moved(problem_cast<GemmProblem>(problem)); }
  bool programmatic_edge(ProblemRef problem) const override {
    return problem_cast<GemmProblem>(problem).programmatic_edge != 0;
  }
  DType multiplied_dtype(ProblemRef problem) const override {
    const auto& p = problem_cast<GemmProblem>(problem);
    return dtype_bits(p.b_dtype) > dtype_bits(p.a_dtype) ? p.b_dtype : p.a_dtype;
  }
  std::string dtype_text(ProblemRef problem) const override {
    const auto& p = problem_cast<GemmProblem>(problem);
    const std::string a = dtype_name(p.a_dtype);
    return p.a_dtype == p.b_dtype ? a : a + "x" + dtype_name(p.b_dtype);
  }
  Result<CallDescription> describe_call(ProblemRef problem) const override {
    return describe_gemm_call(problem_cast<GemmProblem>(problem));
  }
  Result<ArgStruct> describe_args(std::string_view family) const override { return describe_gemm_args(family); }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef problem, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_gemm_instance(problem_cast<GemmProblem>(problem), device, options);
  }

  // One off every blocking's multiples, in each dimension on its own and together; M stays in its bucket's reach.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef problem) const override {
    const auto& p = problem_cast<GemmProblem>(problem);
    const int64_t even = p.gate == GateMode::kNone ? 1 : 2;  // a gated N stays even
    const int64_t m_small = std::min<int64_t>(p.m, 33);
    std::vector<std::vector<std::byte>> tails;
    for (auto [m, n, k] : {std::array<int64_t, 3>{m_small, 97, 259},
                           {1, 1, 1},
                           {std::max<int64_t>(m_small - 1, 1), 31, 65},
                           {m_small, 160, 127},
                           {std::min<int64_t>(p.m, 70), 65, 33}}) {
      tails.push_back(bytes_of(resize_gemm_problem(p, m, (n + even - 1) / even * even, k)));
    }
    return tails;
  }

 private:
  static std::vector<std::byte> bytes_of(const GemmProblem& problem) {
    const ProblemRef ref = erase(problem);
    return {ref.begin(), ref.end()};
  }
};

}  // namespace

const Operator& gemm_operator() {
  static const GemmOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
