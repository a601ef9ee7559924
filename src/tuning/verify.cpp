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
                                                   int units, int seeds, int rotations) {
  std::unique_ptr<Verifier> verifier(new Verifier(context, op, units));
  verifier->fills_ = {{1, InputData::kIntegers}};
  for (int seed = 1; seed <= std::max(1, seeds); ++seed) {
    verifier->fills_.push_back({static_cast<uint64_t>(seed), InputData::kNormal});
  }
  Result<Part> timed = verifier->make_part(problem, std::max(1, rotations), {1, InputData::kNormal}, true);
  if (!timed) return timed.status();
  verifier->timed_ = std::move(*timed);
  Result<Part> refilled = verifier->make_part(problem, 1, {1, InputData::kIntegers});
  if (!refilled) return refilled.status();
  verifier->refilled_ = std::move(*refilled);
  for (const std::vector<std::byte>& tail : op.tail_problems(problem)) {
    std::vector<Part>& parts = verifier->tails_.emplace_back();
    for (const Fill& fill : verifier->fills_) {
      Result<Part> part = verifier->make_part(tail, 1, fill);
      if (!part) return part.status();
      parts.push_back(std::move(*part));
    }
  }
  return verifier;
}

Result<Verifier::Part> Verifier::make_part(ProblemRef problem, int rotations, const Fill& fill, bool usual) {
  InstanceOptions options;
  options.rotations = rotations;
  options.device_data = context_.device_data();
  options.usual = usual;
  Result<std::unique_ptr<ProblemInstance>> instance = op_.instantiate(problem, context_.device(), options);
  if (!instance) return instance.status();
  (*instance)->fill(fill.seed, fill.data);
  return Part{{problem.begin(), problem.end()}, std::move(*instance), fill};
}

Status Verifier::check(const Recipe& recipe, ProblemRef problem) const {
  for (const RecipeStep& step : recipe.steps) {
    const KernelFamily* family = find_family(op_.families(), step.key.family);
    if (family == nullptr) continue;
    if (Status s = family->check(problem, spec_, step); !s) return s;
  }
  return {};
}

Result<std::shared_ptr<const Plan>> Verifier::plan(const Recipe& recipe) {
  const std::string text = print_recipe(op_.families(), recipe);
  if (const auto it = plans_.find(text); it != plans_.end()) return it->second;
  if (Status s = check(recipe, timed_.problem); !s) return s;
  Result<std::shared_ptr<const Plan>> plan =
      context_.dispatcher().bind(op_, timed_.problem, spec_, recipe, ChoiceSource::kForced, /*allow_compile=*/true);
  if (plan) plans_.emplace(text, *plan);
  return plan;
}

Status Verifier::run(Part& part, const Plan& plan, VerifyReport& total) {
  part.instance->poison();
  if (Status s = run_plan(context_.device(), plan, part.instance->bindings(), {}); !s) return s;
  join(part.instance->verify(),
       fmt::format("{}, seed {}, {}", op_.problem_text(part.problem), part.fill.seed,
                   part.fill.data == InputData::kNormal ? "normal data" : "integers"),
       total);
  return {};
}

Result<VerifyReport> Verifier::verify_quickly(const Recipe& recipe) {
  VerifyReport total = nothing_failed_yet();
  Result<std::shared_ptr<const Plan>> bound = plan(recipe);
  if (!bound) return bound.status();
  for (std::vector<Part>& parts : tails_) {
    if (!check(recipe, parts[0].problem).ok()) continue;  // a refusal is no error
    Result<std::shared_ptr<const Plan>> tail =
        context_.dispatcher().bind(op_, parts[0].problem, spec_, recipe, ChoiceSource::kForced, /*allow_compile=*/true);
    if (!tail) return tail.status();
    for (Part& part : parts) {
      if (Status s = run(part, **tail, total); !s) return s;
      if (!total.passed) return total;
    }
  }
  if (Status s = run(timed_, **bound, total); !s) return s;
  return total;
}

Result<VerifyReport> Verifier::verify_problem(const Recipe& recipe) {
  VerifyReport total = nothing_failed_yet();
  Result<std::shared_ptr<const Plan>> bound = plan(recipe);
  if (!bound) return bound.status();
  // Filling a large problem takes longer than running it: begin with what lies there.
  std::vector<Fill> fills = fills_;
  std::erase(fills, timed_.fill);
  std::stable_partition(fills.begin(), fills.end(), [this](const Fill& fill) { return fill == refilled_.fill; });
  for (const Fill& fill : fills) {
    if (!(refilled_.fill == fill)) refilled_.instance->fill(fill.seed, fill.data);
    refilled_.fill = fill;
    if (Status s = run(refilled_, **bound, total); !s) return s;
    if (!total.passed) break;
  }
  return total;
}

Result<VerifyReport> verify_recipe(ContextImpl& context, const Operator& op, ProblemRef problem, const Recipe& recipe,
                                   int units, int seeds) {
  Result<std::unique_ptr<Verifier>> verifier = Verifier::create(context, op, problem, units, seeds, 1);
  if (!verifier) return verifier.status();
  Result<VerifyReport> quick = (*verifier)->verify_quickly(recipe);
  if (!quick || !quick->passed) return quick;
  Result<VerifyReport> report = (*verifier)->verify_problem(recipe);
  if (report) {
    report->worst_ratio = std::max(report->worst_ratio, quick->worst_ratio);
    report->rel_error = std::max(report->rel_error, quick->rel_error);
    report->compared += quick->compared;
  }
  return report;
}

}  // namespace tilewright
