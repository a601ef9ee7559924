// SPDX-License-Identifier: MIT
// tilewright explain: what would run for a problem, every candidate with its cost, every refusal with its reason.
#include <fmt/format.h>

#include "command.hpp"
#include "core/fields.hpp"
#include "output/numbers.hpp"
#include "problems/problem_arguments.hpp"

namespace tilewright::cli {
namespace {

struct ExplainOptions {
  ProblemArguments problems;
  std::string recipe;
  int threads = 0;
  OutputOptions output;
};

Result<Table> choice_table(ContextImpl& context, const NamedProblem& problem, const std::string& recipe,
                           std::vector<std::string>& refusals) {
  Result<std::vector<Choice>> choices = context.dispatcher().choices(
      *problem.op, problem.ref(), context.spec(0), *context.tables(), recipe, &refusals);
  if (!choices) return choices.status();
  Table table("choices", {{"source", "source"},
                          {"predicted_us", "predicted us", Align::kRight},
                          {"built", "built"},
                          {"recipe", "recipe"}});
  for (const Choice& choice : *choices) {
    const bool built = choice.built || context.dispatcher().built(*problem.op, choice.recipe);
    const double us = choice.cost * 1e6;
    table.add({text_cell(fields_detail::print_value(choice.source)),
               us > 0 ? number_cell(us, print_significant(us, 4)) : absent(),
               {built, built ? "built" : "not built"},
               text_cell(print_recipe(problem.op->families(), choice.recipe))});
  }
  return table;
}

Result<ExitCode> run_explain(const ExplainOptions& options) {
  Result<std::vector<NamedProblem>> problems = require_problems(options.problems);
  if (!problems) return problems.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(options.threads);
  if (!context) return context.status();

  if (options.output.form() == Form::kText) {
    for (size_t i = 0; i < problems->size(); ++i) {
      const NamedProblem& problem = (*problems)[i];
      Result<std::string> text = (*context)->explain(*problem.op, problem.ref(), 0, options.recipe);
      if (!text) return text.status();
      fmt::print("{}{}", i > 0 ? "\n" : "", *text);
    }
    return ExitCode::kOk;
  }
  Document document("explain");
  for (const NamedProblem& problem : *problems) {
    std::vector<std::string> refusals;
    Result<Table> table = choice_table(**context, problem, options.recipe, refusals);
    if (!table) return table.status();
    Json facts = {{"op", problem.op->name()}, {"problem", problem.text()}, {"choices", table->to_json()},
                  {"refusals", refusals}};
    if (options.output.csv) document.add(std::move(*table));
    document.append("problems", std::move(facts));
  }
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_explain_command(CLI::App& program, Invocation& invocation) {
  add_command<ExplainOptions>(
      program, invocation, "explain", "Tell what would run for a problem, and why",
      "  tilewright explain --gemm 16x4096x4096:bf16:packed\n"
      "  tilewright explain --problem m=16:n=4096:k=4096:a=bf16:bias=bf16:act=gelu\n"
      "  tilewright explain --gemm 16x4096x4096:bf16 --json",
      [](CLI::App& command, ExplainOptions& options) {
        add_problem_options(command, options.problems);
        command.add_option("--recipe", options.recipe, "ask about this recipe (text form)")->type_name("RECIPE");
        add_threads_option(command, options.threads);
        add_output_options(command, options.output);
      },
      run_explain);
}

}  // namespace tilewright::cli
