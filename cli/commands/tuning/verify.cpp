// SPDX-License-Identifier: MIT
// tilewright verify: runs kernels against the float64 reference, on the problem and on its tails.
#include <fmt/format.h>

#include <set>

#include "command.hpp"
#include "output/numbers.hpp"
#include "output/progress_bar.hpp"
#include "problems/problem_arguments.hpp"
#include "problems/standard_problems.hpp"
#include "results/recipe_text.hpp"
#include "tuning/tuner.hpp"

namespace tilewright::cli {
namespace {

struct VerifyOptions {
  ProblemArguments problems;
  bool all = false, every_knob = false;
  std::string recipe;
  int threads = 0, seeds = 3;
  std::string device = "cpu";
  OutputOptions output;
};

struct Case {
  const NamedProblem* problem;
  Recipe recipe;
};

std::string keys_of(const Recipe& recipe) {
  std::string text;
  for (const RecipeStep& step : recipe.steps) text += step.key.text + "+";
  return text;
}

// One case a kernel (its cheapest knobs), or one a candidate.
Result<std::vector<Case>> cases_of(ContextImpl& context, const NamedProblem& problem, const VerifyOptions& options) {
  Result<std::vector<Choice>> choices = context.dispatcher().choices(*problem.op, problem.ref(), context.spec(0),
                                                                     *context.tables(), options.recipe, nullptr);
  if (!choices) return choices.status();
  std::vector<Case> cases;
  std::set<std::string> seen;
  for (Choice& choice : *choices) {
    const std::string name =
        options.every_knob ? print_recipe(problem.op->families(), choice.recipe) : keys_of(choice.recipe);
    if (seen.insert(name).second) cases.push_back({&problem, std::move(choice.recipe)});
  }
  return cases;
}

Result<ExitCode> run_verify(const VerifyOptions& options) {
  Result<std::vector<NamedProblem>> problems =
      options.all && options.problems.empty() ? standard_problems() : require_problems(options.problems);
  if (!problems) return problems.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(options.threads, options.device);
  if (!context) return context.status();
  std::vector<Case> cases;
  for (const NamedProblem& problem : *problems) {
    Result<std::vector<Case>> more = cases_of(**context, problem, options);
    if (!more) return more.status();
    std::move(more->begin(), more->end(), std::back_inserter(cases));
  }

  Table table("results", {{"problem", "problem"},
                          {"passed", "result"},
                          {"worst_ratio", "of bound", Align::kRight},
                          {"rel_err", "error", Align::kRight},
                          {"compared", "compared", Align::kRight},
                          {"recipe", ""},
                          {"short_recipe", "kernel"},
                          {"failure", "why"}});
  ProgressBar bar;
  int failed = 0, unbuilt = 0;
  const bool may_compile = (*context)->cache().mode() != JitMode::kOff;
  for (size_t i = 0; i < cases.size(); ++i) {
    const NamedProblem& problem = *cases[i].problem;
    const std::string recipe = print_recipe(problem.op->families(), cases[i].recipe);
    bar.update({static_cast<double>(i) / static_cast<double>(cases.size()), problem.text(), short_recipe(recipe)});
    if (!may_compile && !(*context)->dispatcher().built(*problem.op, cases[i].recipe)) {
      ++unbuilt;
      continue;
    }
    Result<VerifyReport> result =
        verify_recipe(**context, *problem.op, problem.ref(), cases[i].recipe, 0, options.seeds);
    const VerifyReport report = result ? *result : VerifyReport{.failure = result.status().to_string()};
    failed += report.passed ? 0 : 1;
    const bool known = report.compared > 0;
    table.add({text_cell(problem.text()),
               flag_cell(report.passed, report.passed ? "pass" : "FAIL", report.passed ? Tone::kGood : Tone::kBad),
               known ? number_cell(report.worst_ratio, fmt::format("{:.3f}", report.worst_ratio)) : absent(),
               known ? number_cell(report.rel_error, fmt::format("{:.1e}", report.rel_error)) : absent(),
               count_cell(report.compared), text_cell(recipe), text_cell(short_recipe(recipe)),
               text_cell(report.failure)});
  }
  bar.finish();
  Document document("verify");
  const size_t checked = table.size();
  document.add(std::move(table));
  document.fact("checked", static_cast<int64_t>(checked), "");
  document.fact("unbuilt", int64_t{unbuilt},
                unbuilt > 0 ? fmt::format("{} kernels are not built, and compiling is off", unbuilt) : "");
  document.fact("failed", int64_t{failed},
                fmt::format("{} of {} passed", checked - static_cast<size_t>(failed), checked));
  document.print(options.output);
  return failed > 0 ? ExitCode::kCheckFailed : ExitCode::kOk;
}

}  // namespace

void add_verify_command(CLI::App& program, Invocation& invocation) {
  add_command<VerifyOptions>(
      program, invocation,
      {"verify", "Check kernels against the float64 reference",
       "  tilewright verify --gemm 16x4096x4096:bf16:packed      every kernel that serves the problem\n"
       "  tilewright verify --all                                a standard set of problems\n"
       "  tilewright verify --gemm 33x97x259:f32 --recipe RECIPE --seeds 10"},
      [](Arguments& arguments, VerifyOptions& options) {
        add_problem_arguments(arguments, options.problems);
        arguments.flag("--all", options.all, "a set of problems that covers dtypes, layouts and epilogues");
        arguments.text("--recipe", options.recipe, "RECIPE", "only this recipe (text form)");
        arguments.flag("--every-knob", options.every_knob, "every candidate, not one a kernel");
        arguments.integer("--seeds", options.seeds, 1, 1000, "random seeds (3)");
        add_threads_argument(arguments, options.threads);
        add_device_argument(arguments, options.device);
        add_output_arguments(arguments, options.output);
      },
      run_verify);
}

}  // namespace tilewright::cli
