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
  // Allocates and fills the buffers of the problem (with `rotations` copies) and of its tail problems.
  static Result<std::unique_ptr<Verifier>> create(ContextImpl& context, const Operator& op, ProblemRef problem,
                                                  int units, int rotations);

  // Compiles or loads, and binds: kept for the life of the verifier.
  Result<std::shared_ptr<const Plan>> plan(const Recipe& recipe);

  // All tails with all seeds, then the problem with the data that lies in its buffers: cheap, before timing.
  Result<VerifyReport> verify_quickly(const Recipe& recipe, int seeds);
  // The problem with integers and with every seed: before a row is stored. Leaves seed 1 in the buffers.
  Result<VerifyReport> verify_problem(const Recipe& recipe, int seeds);

  ProblemInstance& instance() { return *parts_[0].instance; }
  const DeviceSpec& spec() const { return spec_; }

 private:
  struct Part {
    std::vector<std::byte> problem;
    std::unique_ptr<ProblemInstance> instance;
    uint64_t seed = 0;  // what lies in the buffers
    InputData data = InputData::kNormal;
  };

  Verifier(ContextImpl& context, const Operator& op, int units)
      : context_(context), op_(op), spec_(context.spec(units)) {}
  Status add_part(std::vector<std::byte> problem, int rotations);
  Status check(const Recipe& recipe, ProblemRef problem) const;
  void fill(Part& part, uint64_t seed, InputData data);
  // Runs the plan on one filled part; the verdict joins `total`.
  Status run(Part& part, const Plan& plan, VerifyReport& total);

  ContextImpl& context_;
  const Operator& op_;
  const DeviceSpec spec_;
  std::vector<Part> parts_;  // the problem, then its tails
  std::unordered_map<std::string, std::shared_ptr<const Plan>> plans_;
};

}  // namespace tilewright
