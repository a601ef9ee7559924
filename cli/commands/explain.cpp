// SPDX-License-Identifier: MIT
// tilewright explain: what would run for a problem, every candidate with its cost, every refusal with its reason.
#include <fmt/format.h>

#include "command.hpp"
#include "core/fields.hpp"
#include "output/numbers.hpp"
#include "problems/problem_arguments.hpp"
#include "tuning/store/provenance.hpp"

namespace tilewright::cli {
namespace {

struct ExplainOptions {
  ProblemArguments problems;
  std::string recipe, device = "cpu";
  int threads = 0;
  OutputOptions output;
};

// The tuned rows that dispatch looked at: which layer they stand in, and whether they are fresh.
struct FoundRow {
  const char* kind;  // "exact", "bucket"
  const TunedRow* row;
  std::string layer, state;
};
std::vector<FoundRow> rows_for(const ContextImpl& context, const NamedProblem& problem, const TunedTable& tables) {
  const DeviceSpec spec = context.spec(0);
  const ProblemSignature signature = problem.op->signature(problem.ref());
  std::vector<FoundRow> found;
  const auto add = [&](const char* kind, const TunedRow* row) {
    if (row == nullptr || (!found.empty() && found.front().row == row)) return;
    const std::vector<std::string> reasons = stale_reasons(*row, spec);
    found.push_back({kind, row, tables.origin(*row), reasons.empty() ? "fresh" : "stale: " + join(reasons, "; ")});
  };
  add("exact", tables.find_exact(problem.op->name(), spec.arch->target, spec.part, spec.units, signature));
  add("bucket", tables.find_bucket(problem.op->name(), spec.arch->target, spec.part, spec.units, signature));
  return found;
}

// The candidates of one problem and the refusals, as rows of their tables.
Status add_rows(ContextImpl& context, const NamedProblem& problem, const std::string& recipe, Table& choices,
                Table& refusals) {
  std::vector<std::string> refused;
  Result<std::vector<Choice>> found =
      context.dispatcher().choices(*problem.op, problem.ref(), context.spec(0), *context.tables(), recipe, &refused);
  if (!found) return found.status();
  const Cell op = text_cell(std::string(problem.op->name())), text = text_cell(problem.text());
  for (const Choice& choice : *found) {
    const double us = choice.cost * 1e6;
    const bool built = context.dispatcher().built(*problem.op, choice.recipe);
    choices.add({op, text, text_cell(fields_detail::print_value(choice.source)),
                 us > 0 ? number_cell(us, print_significant(us, 4)) : absent(),
                 flag_cell(built, built ? "built" : "not built"),
                 text_cell(print_recipe(problem.op->families(), choice.recipe))});
  }
  // "family: reason".
  for (const std::string& line : refused) {
    const size_t colon = line.find(": ");
    refusals.add({op, text, text_cell(line.substr(0, colon)),
                  text_cell(colon == std::string::npos ? "" : line.substr(colon + 2))});
  }
  return {};
}

Result<ExitCode> run_explain(const ExplainOptions& options) {
  Result<std::vector<NamedProblem>> problems = require_problems(options.problems);
  if (!problems) return problems.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(options.threads, options.device);
  if (!context) return context.status();

  if (options.output.form() == Form::kText) {
    for (size_t i = 0; i < problems->size(); ++i) {
      const NamedProblem& problem = (*problems)[i];
      Result<std::string> text = (*context)->explain(*problem.op, problem.ref(), 0, options.recipe);
      if (!text) return text.status();
      fmt::print("{}{}", i > 0 ? "\n" : "", *text);
      const std::shared_ptr<const TunedTable> tables = (*context)->tables();
      for (const FoundRow& found : rows_for(**context, problem, *tables)) {
        fmt::print("tuned row  {}: {}, measured {}, {}\n", found.kind, found.layer, found.row->date, found.state);
      }
    }
    return ExitCode::kOk;
  }
  Table choices("choices", {{"op", ""},
                            {"problem", "problem"},
                            {"source", "source"},
                            {"predicted_us", "predicted us", Align::kRight},
                            {"built", "built"},
                            {"recipe", "recipe"}});
  Table refusals("refusals", {{"op", ""}, {"problem", "problem"}, {"family", "family"}, {"reason", "reason"}});
  Table tuned("tuned_rows", {{"op", ""},
                             {"problem", "problem"},
                             {"kind", "tuned row"},
                             {"layer", "layer"},
                             {"date", "measured"},
                             {"state", "state"},
                             {"recipe", "recipe"}});
  const std::shared_ptr<const TunedTable> tables = (*context)->tables();
  for (const NamedProblem& problem : *problems) {
    for (const FoundRow& found : rows_for(**context, problem, *tables)) {
      tuned.add({text_cell(std::string(problem.op->name())), text_cell(problem.text()), text_cell(found.kind),
                 text_cell(found.layer), text_cell(found.row->date), text_cell(found.state),
                 text_cell(found.row->recipe)});
    }
    if (Status s = add_rows(**context, problem, options.recipe, choices, refusals); !s) return s;
  }
  Document document("explain");
  document.add(std::move(choices));
  document.add(std::move(refusals));
  document.add(std::move(tuned));
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_explain_command(CLI::App& program, Invocation& invocation) {
  add_command<ExplainOptions>(
      program, invocation,
      {"explain", "Tell what would run for a problem, and why",
       "  tilewright explain --gemm 16x4096x4096:bf16:packed\n"
       "  tilewright explain --problem m=16:n=4096:k=4096:a=bf16:bias=bf16:act=gelu\n"
       "  tilewright explain --gemm 16x4096x4096:bf16 --json"},
      [](Arguments& arguments, ExplainOptions& options) {
        add_problem_arguments(arguments, options.problems);
        arguments.text("--recipe", options.recipe, "RECIPE", "ask about this recipe (text form)");
        add_threads_argument(arguments, options.threads);
        add_device_argument(arguments, options.device);
        add_output_arguments(arguments, options.output);
      },
      run_explain);
}

}  // namespace tilewright::cli
