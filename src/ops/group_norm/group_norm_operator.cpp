// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of group_norm and its gradient.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "ops/group_norm/families/group_norm_families.hpp"
#include "ops/group_norm/instance/group_norm_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> group_norm_problem_bytes(const GroupNormProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class GroupNormOperator final : public Operator {
 public:
  explicit GroupNormOperator(bool backward)
      : backward_(backward),
        families_{&group_norm_cpu_family(false, backward), &group_norm_gpu_family(false, backward),
                  &group_norm_cpu_family(true, backward), &group_norm_gpu_family(true, backward)} {}

  std::string_view name() const override { return backward_ ? "group_norm_backward" : "group_norm"; }
  std::span<const KernelFamily* const> families() const override { return families_; }
  ProblemSignature signature(ProblemRef ref) const override {
    const auto& p = problem_cast<GroupNormProblem>(ref);
    const auto ceil = [](int64_t size) { return std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))); };
    ProblemSignature s;
    s.sizes = fmt::format("n={}:c={}:s={}:g={}", p.images, p.channels, p.positions, p.groups);
    s.bucket = fmt::format("n<={}:c<={}:s<={}", ceil(p.images), ceil(p.channels), ceil(p.positions));
    const int64_t length = p.channels_last != 0 ? p.channels : p.positions;
    s.core = fmt::format("x={}:channels_last={}:pieces={}", dtype_name(p.dtype), p.channels_last,
                         p.unaligned == 0 && length % kRowPiece == 0 ? "whole" : "any");
    s.epilogue = kActivationNames[static_cast<int>(p.activation)];
    return s;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_group_norm_problem(problem_cast<GroupNormProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    Result<GroupNormProblem> problem = parse_group_norm_problem(text, backward_);
    if (!problem) return problem.status();
    return group_norm_problem_bytes(*problem);
  }
  // Two sums, and what an element is normalised by; of the gradient two more, and what it is made of.
  double operations(ProblemRef ref) const override {
    return (backward_ ? 16 : 6) * static_cast<double>(problem_cast<GroupNormProblem>(ref).elements());
  }
  double bytes_moved(ProblemRef ref) const override { return group_norm_bytes(problem_cast<GroupNormProblem>(ref)); }
  std::string dtype_text(ProblemRef ref) const override {
    return dtype_name(problem_cast<GroupNormProblem>(ref).dtype);
  }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_group_norm_instance(problem_cast<GroupNormProblem>(ref), device, options);
  }

  // One element, one position, one channel a group, groups that share a piece, parts of pieces and chunks.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    struct Sizes {
      int64_t images, channels, positions, groups;
    };
    std::vector<std::vector<std::byte>> tails;
    for (const Sizes& sizes : {Sizes{1, 1, 1, 1},
                               {3, 20, 1, 4},
                               {2, 7, 9, 7},
                               {2, 66, 33, 22},
                               {1, 3, 5000, 1},
                               {2, 80, 300, 8},
                               {1, 8, 4104, 2}}) {
      GroupNormProblem p = problem_cast<GroupNormProblem>(ref);
      p.images = sizes.images, p.channels = sizes.channels, p.positions = sizes.positions, p.groups = sizes.groups;
      set_contiguous(p);
      tails.push_back(group_norm_problem_bytes(p));
    }
    return tails;
  }

 private:
  const bool backward_;
  const std::array<const KernelFamily*, 4> families_;
};

}  // namespace

const Operator& group_norm_operator() {
  static const GroupNormOperator kOperator(false);
  return kOperator;
}
const Operator& group_norm_backward_operator() {
  static const GroupNormOperator kOperator(true);
  return kOperator;
}

}  // namespace tilewright
