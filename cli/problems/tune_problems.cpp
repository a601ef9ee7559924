// SPDX-License-Identifier: MIT
#include "problems/tune_problems.hpp"

#include <fmt/format.h>

#include <set>

#include "command.hpp"

namespace tilewright::cli {

void add_tune_problems_arguments(Arguments& arguments, TuneProblems& wanted) {
  add_model_arguments(arguments, wanted.models);
  add_problem_arguments(arguments, wanted.problems);
  arguments.choice("--suite", wanted.suite, suite_names(), "the problems of a suite of `bench`");
}

Result<std::vector<NamedProblem>> problems_to_tune(const TuneProblems& wanted, DeviceKind kind,
                                                   const std::vector<NamedProblem>& more) {
  std::vector<NamedProblem> problems;
  std::set<std::string> known;
  const auto add = [&](const NamedProblem& problem) {
    const bool fresh = known.insert(fmt::format("{} {}", problem.op->name(), problem.text())).second;
    if (fresh) problems.push_back(problem);
  };
  if (!wanted.models.empty()) {
    std::vector<std::string> notes;
    ModelArguments models = wanted.models;
    models.plain |= kind != DeviceKind::kCpu;
    Result<std::vector<NamedProblem>> layers = model_problems(models, notes);
    if (!layers) return layers.status();
    for (const std::string& line : notes) note(line);
    problems = std::move(*layers);
    for (const NamedProblem& problem : problems) known.insert(fmt::format("{} {}", problem.op->name(), problem.text()));
  }
  if (!wanted.suite.empty()) {
    Result<Suite> suite = find_suite(wanted.suite, kind);
    if (!suite) return suite.status();
    for (const SuiteProblem& item : suite->problems) {
      add(item.problem);
      if (item.baseline) add(*item.baseline);
    }
    if (!suite->skipped.empty()) {
      note(fmt::format("{} rows of the suite are left out: {}", suite->skipped.size(), suite->skipped.front().reason));
    }
  }
  Result<std::vector<NamedProblem>> given = parse_problems(wanted.problems);
  if (!given) return given.status();
  for (const NamedProblem& problem : *given) add(problem);
  for (const NamedProblem& problem : more) add(problem);
  return problems;
}

}  // namespace tilewright::cli
