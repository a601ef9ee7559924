// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of sample.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ops/op_list.hpp"
#include "ops/sample/families/sample_families.hpp"
#include "ops/sample/instance/sample_instance.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> sample_problem_bytes(const SampleProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class SampleOperator final : public Operator {
 public:
  std::string_view name() const override { return "sample"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&sample_cpu_family(), &sample_gpu_family(),
                                                    &sample_generic_family(), &sample_generic_gpu_family()};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef ref) const override {
    const auto& p = problem_cast<SampleProblem>(ref);
    ProblemSignature s;
    s.sizes = fmt::format("b={}:v={}", p.rows, p.vocabulary);
    s.bucket =
        fmt::format("b<={}:v={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.rows, 1))), p.vocabulary);
    s.core = fmt::format("x={}:greedy={}:cuts={}:rows={}", dtype_name(p.x), p.greedy, p.cuts() ? 1 : 0,
                         p.unaligned == 0 && p.stride % kRowPiece == 0 ? "aligned" : "any");
    s.epilogue = fmt::format("log_probabilities={}", p.log_probabilities);
    return s;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_sample_problem(problem_cast<SampleProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<SampleProblem> problem = parse_sample_problem(text);
    if (!problem) return problem.status();
    return sample_problem_bytes(*problem);
  }
  // A comparison; of a draw an exponential and a random number beside it.
  double operations(ProblemRef ref) const override {
    const auto& p = problem_cast<SampleProblem>(ref);
    return (p.greedy != 0 ? 1 : 3) * static_cast<double>(p.rows) * static_cast<double>(p.vocabulary);
  }
  double bytes_moved(ProblemRef ref) const override { return sample_bytes(problem_cast<SampleProblem>(ref)); }
  std::string dtype_text(ProblemRef ref) const override { return dtype_name(problem_cast<SampleProblem>(ref).x); }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_sample_instance(problem_cast<SampleProblem>(ref), device, options);
  }

  // Part of a piece, of a chunk, a chunk and one more.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    std::vector<std::vector<std::byte>> tails;
    for (const int64_t vocabulary : {1, 5, 1000, kSampleChunk + 1, 2 * kSampleChunk + 1003}) {
      SampleProblem p = problem_cast<SampleProblem>(ref);
      p.rows = 11, p.vocabulary = vocabulary;
      set_contiguous(p);
      tails.push_back(sample_problem_bytes(p));
    }
    return tails;
  }
};

}  // namespace

const Operator& sample_operator() {
  static const SampleOperator kOperator;
  return kOperator;
}

}  // namespace tilewright
