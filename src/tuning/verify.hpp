// SPDX-License-Identifier: MIT
// Verification of recipes on one problem and its tails: several seeds and distributions, outputs poisoned, buffers
// guarded. The buffers serve every recipe, and the problem's own also serve timing. Verification ends at the first failure;
// what a wrong kernel did to the buffers is not undone, so a verifier that saw one is thrown away.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"

namespace tilewright {

class Verifier {
 public:
  // Allocates and fills all buffers: `rotations` copies of the problem's for timing, and one set each for the other fills.
  // `seeds` normal fills, 1 .. seeds, and one of integers.
  static Result<std::unique_ptr<Verifier>> create(ContextImpl& context, const Operator& op, ProblemRef problem,
                                                  int units, int seeds, int rotations);

  // Compiles or loads, and binds: kept for the life of the verifier.
  Result<std::shared_ptr<const Plan>> plan(const Recipe& recipe);

  // All tails with all fills, then the problem with seed 1: cheap, before timing.
  Result<VerifyReport> verify_quickly(const Recipe& recipe);
  // The problem with all other fills: before a row is stored.
  Result<VerifyReport> verify_problem(const Recipe& recipe);

  // The problem's buffers, with seed 1 in them.
  ProblemInstance& instance() { return *timed_.instance; }
  const DeviceSpec& spec() const { return spec_; }

 private:
  struct Fill {
    uint64_t seed = 0;  // 0 = nothing yet
    InputData data = InputData::kNormal;
    bool operator==(const Fill&) const = default;
  };
  struct Part {
    std::vector<std::byte> problem;
    std::unique_ptr<ProblemInstance> instance;
    Fill fill;  // what lies in the buffers
  };

  Verifier(ContextImpl& context, const Operator& op, int units)
      : context_(context), op_(op), spec_(context.spec(units)) {}
  Result<Part> make_part(ProblemRef problem, int rotations, const Fill& fill, bool usual = false);
  Status check(const Recipe& recipe, ProblemRef problem) const;
  // Runs the plan on one part; the verdict joins `total`.
  Status run(Part& part, const Plan& plan, VerifyReport& total);

  ContextImpl& context_;
  const Operator& op_;
  const DeviceSpec spec_;
  std::vector<Fill> fills_;  // integers, then the seeds
  Part timed_, refilled_;
  std::vector<std::vector<Part>> tails_;  // a part for each tail and fill
  std::unordered_map<std::string, std::shared_ptr<const Plan>> plans_;
};

}  // namespace tilewright
