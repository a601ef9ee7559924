// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of transpose.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ops/op_list.hpp"
#include "ops/transpose/families/transpose_families.hpp"
#include "ops/transpose/instance/transpose_instance.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> transpose_problem_bytes(const TransposeProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class TransposeOperator final : public Operator {
 public:
  std::string_view name() const override { return "transpose"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&transpose_cpu_family(), &transpose_gpu_family(),
                                                    &transpose_generic_family(), &transpose_generic_gpu_family()};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef ref) const override {
    const auto& p = problem_cast<TransposeProblem>(ref);
    ProblemSignature s;
    const int64_t rows = p.batches() * p.m;
    s.sizes = fmt::format("b={}:m={}:n={}", p.batches(), p.m, p.n);
    s.bucket = fmt::format("rows<={}:n<={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows, 1))),
                           std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.n, 1))));
    const int64_t each = 128 / std::max(dtype_bits(p.dtype), 1);
    s.core = fmt::format("bytes={}:pieces={}", dtype_bits(p.dtype) / 8,
                         p.unaligned == 0 && p.m % each == 0 && p.n % each == 0 ? "whole" : "any");
    s.epilogue = "none";
    return s;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_transpose_problem(problem_cast<TransposeProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<TransposeProblem> problem = parse_transpose_problem(text);
    if (!problem) return problem.status();
    return transpose_problem_bytes(*problem);
  }
  // A move.
  double operations(ProblemRef ref) const override {
    const auto& p = problem_cast<TransposeProblem>(ref);
    return static_cast<double>(p.batches()) * static_cast<double>(p.m) * static_cast<double>(p.n);
  }
  double bytes_moved(ProblemRef ref) const override { return transpose_bytes(problem_cast<TransposeProblem>(ref)); }
  std::string dtype_text(ProblemRef ref) const override {
    return dtype_name(problem_cast<TransposeProblem>(ref).dtype);
  }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_transpose_instance(problem_cast<TransposeProblem>(ref), device, options);
  }

  // One row or column, part of a piece, of a tile, a tile and one more, several matrices.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    std::vector<std::vector<std::byte>> tails;
    for (const auto& [m, n] : {std::pair{1, 1}, {1, 300}, {77, 1}, {5, 7}, {64, 16}, {33, 129}, {208, 144}}) {
      TransposeProblem p = problem_cast<TransposeProblem>(ref);
      p.batch = {1, 2, 3}, p.m = m, p.n = n;
      set_contiguous(p);
      tails.push_back(transpose_problem_bytes(p));
    }
    return tails;
  }
};

}  // namespace

const Operator& transpose_operator() {
  static const TransposeOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
