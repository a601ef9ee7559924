// SPDX-License-Identifier: MIT
#include "tuning/verify.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tuning/tuner.hpp"

namespace tilewright {
namespace {

// Adds one run's verdict: the worst of everything, the first failure with where it happened.
void join(const VerifyReport& one, const std::string& where, VerifyReport& total) {
  total.worst_ratio = std::max(total.worst_ratio, one.worst_ratio);
  total.rel_error = std::max(total.rel_error, one.rel_error);
  total.compared += one.compared;
  if (one.passed) return;
  total.passed = false;
  if (total.failure.empty()) total.failure = fmt::format("{} ({})", one.failure, where);
}

VerifyReport nothing_failed_yet() {
  VerifyReport report;
  report.passed = true;
  return report;
}

}  // namespace

Result<std::unique_ptr<Verifier>> Verifier::create(ContextImpl& context, const Operator& op, ProblemRef problem,
                                                   int units, int rotations) {
  std::unique_ptr<Verifier> verifier(new Verifier(context, op, units));
  if (Status s = verifier->add_part({problem.begin(), problem.end()}, rotations); !s) return s;
  for (std::vector<std::byte>& tail : op.tail_problems(problem)) {
    if (Status s = verifier->add_part(std::move(tail), 1); !s) return s;
  }
  verifier->fill(verifier->parts_[0], 1, InputData::kNormal);
  return verifier;
}

Status Verifier::add_part(std::vector<std::byte> problem, int rotations) {
  InstanceOptions options;
  options.rotations = std::max(1, rotations);
  Result<std::unique_ptr<ProblemInstance>> instance = op_.instantiate(problem, context_.device(), options);
  if (!instance) return instance.status();
  parts_.push_back({std::move(problem), std::move(*instance), 0, InputData::kNormal});
  return {};
}

void Verifier::fill(Part& part, uint64_t seed, InputData data) {
  if (part.seed == seed && part.data == data) return;
  part.instance->fill(seed, data);
  part.seed = seed;
  part.data = data;
}

Status Verifier::check(const Recipe& recipe, ProblemRef problem) const {
  for (const RecipeStep& step : recipe.steps) {
    for (const KernelFamily* family : op_.families()) {
      if (family->name() != step.key.family) continue;
      if (Status s = family->check(problem, spec_, step); !s) return s;
    }
  }
  return {};
}

Result<std::shared_ptr<const Plan>> Verifier::plan(const Recipe& recipe) {
  const std::string text = print_recipe(op_.families(), recipe);
  if (const auto it = plans_.find(text); it != plans_.end()) return it->second;
  if (Status s = check(recipe, parts_[0].problem); !s) return s;
  Result<std::shared_ptr<const Plan>> plan =
      context_.dispatcher().bind(op_, parts_[0].problem, spec_, recipe, ChoiceSource::kForced, /*allow_compile=*/true);
  if (plan) plans_.emplace(text, *plan);
  return plan;
}

Status Verifier::run(Part& part, const Plan& plan, VerifyReport& total) {
  part.instance->poison();
  if (Status s = run_plan(context_.device(), plan, part.instance->bindings(), {}); !s) return s;
  const VerifyReport report = part.instance->verify();
  join(report,
       fmt::format("{}, seed {}, {}", op_.problem_text(part.problem), part.seed,
                   part.data == InputData::kNormal ? "normal data" : "integers"),
       total);
  return {};
}

Result<VerifyReport> Verifier::verify_quickly(const Recipe& recipe, int seeds) {
  VerifyReport total = nothing_failed_yet();
  for (size_t i = 1; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!check(recipe, part.problem).ok()) continue;  // a refusal is no error
    Result<std::shared_ptr<const Plan>> bound =
        context_.dispatcher().bind(op_, part.problem, spec_, recipe, ChoiceSource::kForced, /*allow_compile=*/true);
    if (!bound) return bound.status();
    for (int seed = 0; seed <= std::max(1, seeds); ++seed) {
      fill(part, static_cast<uint64_t>(std::max(1, seed)), seed == 0 ? InputData::kIntegers : InputData::kNormal);
      if (Status s = run(part, **bound, total); !s) return s;
      if (!total.passed) return total;
    }
  }
  Result<std::shared_ptr<const Plan>> bound = plan(recipe);
  if (!bound) return bound.status();
  if (Status s = run(parts_[0], **bound, total); !s) return s;
  return total;
}

Result<VerifyReport> Verifier::verify_problem(const Recipe& recipe, int seeds) {
  VerifyReport total = nothing_failed_yet();
  Result<std::shared_ptr<const Plan>> bound = plan(recipe);
  if (!bound) return bound.status();
  // Integers first, seed 1 last: timing wants normal data, and the next quick verification finds its seed in place.
  for (int seed = std::max(1, seeds) + 1; seed >= 1; --seed) {
    const bool integers = seed == std::max(1, seeds) + 1;
    fill(parts_[0], integers ? 1 : static_cast<uint64_t>(seed), integers ? InputData::kIntegers : InputData::kNormal);
    if (Status s = run(parts_[0], **bound, total); !s) return s;
    if (!total.passed) break;
  }
  fill(parts_[0], 1, InputData::kNormal);
  return total;
}

Result<VerifyReport> verify_recipe(ContextImpl& context, const Operator& op, ProblemRef problem, const Recipe& recipe,
                                   int units, int seeds) {
  Result<std::unique_ptr<Verifier>> verifier = Verifier::create(context, op, problem, units, 1);
  if (!verifier) return verifier.status();
  Result<VerifyReport> tails = (*verifier)->verify_quickly(recipe, seeds);
  if (!tails || !tails->passed) return tails;
  Result<VerifyReport> report = (*verifier)->verify_problem(recipe, seeds);
  if (report) {
    report->worst_ratio = std::max(report->worst_ratio, tails->worst_ratio);
    report->rel_error = std::max(report->rel_error, tails->rel_error);
    report->compared += tails->compared;
  }
  return report;
}

}  // namespace tilewright
