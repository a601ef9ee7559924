// SPDX-License-Identifier: MIT
// tilewright kernels: the registry, with priority and verification level. `inspect` stands in a file of its own.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "core/fields.hpp"
#include "dispatch/registry/quarantine.hpp"
#include "ops/op_list.hpp"

namespace tilewright::cli {
namespace {

struct KernelsOptions {
  std::string op, family, target, filter;
  bool quarantined = false, forget = false;
  OutputOptions output;
};

// What a tuned row names was verified on its device, and may lie in the code cache only.
void add_tuned_rows(ContextImpl& context) {
  for (const TunedRow* row : context.tables()->rows()) {
    const Operator* op = context.find_op(row->op);
    if (op == nullptr) continue;
    Result<Recipe> recipe = parse_recipe(op->families(), row->recipe);
    if (!recipe) continue;
    for (const RecipeStep& step : recipe->steps) {
      context.registry().add({.key = step.key, .verification = Verification::kDevice, .note = "tuned table"});
    }
  }
}

Status require_known(const char* argument, const std::string& value, const std::vector<std::string>& known) {
  if (value.empty() || std::find(known.begin(), known.end(), value) != known.end()) return {};
  return Status(StatusCode::kNotFound, fmt::format("{} '{}' is unknown; known: {}", argument, value, join(known)));
}

Status check_names(const KernelsOptions& options) {
  std::vector<std::string> ops, families;
  for (const Operator* op : all_operators()) {
    ops.emplace_back(op->name());
    for (const KernelFamily* family : op->families()) families.emplace_back(family->name());
  }
  if (Status s = require_known("--op", options.op, ops); !s) return s;
  if (Status s = require_known("--family", options.family, families); !s) return s;
  if (options.target.empty()) return {};
  return require_arch(options.target).status();
}

Cell verification_cell(Verification level) {
  return text_cell(fields_detail::print_value(level), level == Verification::kDevice ? Tone::kGood : Tone::kPlain);
}

Cell priority_cell(Priority priority) {
  return text_cell(fields_detail::print_value(priority), priority == Priority::kDisabled ? Tone::kBad : Tone::kPlain);
}

// The kernels that showed themselves to be bad here, or their release.
Result<ExitCode> run_quarantine(const KernelsOptions& options, QuarantineList& quarantine) {
  Table table("quarantine", {{"op", ""},
                             {"recipe", "quarantined kernel"},
                             {"outcome", "outcome"},
                             {"problem", "on"},
                             {"reason", "reason"},
                             {"date", "since"}});
  const std::vector<QuarantineEntry> entries = quarantine.entries();
  for (const QuarantineEntry& entry : entries) {
    if (!options.op.empty() && entry.op != options.op) continue;
    if (entry.recipe.find(options.filter) == std::string::npos) continue;
    table.add({text_cell(entry.op), text_cell(entry.recipe), text_cell(entry.outcome, Tone::kBad),
               text_cell(entry.problem), text_cell(entry.reason), text_cell(entry.date)});
    if (options.forget) quarantine.forget(entry.op, entry.recipe);
  }
  if (!quarantine.problem().ok()) return quarantine.problem();
  Document document("kernels");
  const auto count = static_cast<int64_t>(table.size());
  document.add(std::move(table));
  document.fact(options.forget ? "released" : "count", count,
                fmt::format("{} kernels {}", count, options.forget ? "are tried again" : "in quarantine"));
  document.print(options.output);
  return ExitCode::kOk;
}

Result<ExitCode> run_kernels(const KernelsOptions& options) {
  if (Status s = check_names(options); !s) return s;
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  add_tuned_rows(**context);
  QuarantineList quarantine(quarantine_path((*context)->spec(0).arch->target), **context,
                            options.forget ? FileAccess::kAppend : FileAccess::kRead);
  if (options.quarantined || options.forget) return run_quarantine(options, quarantine);
  quarantine.apply();
  const std::vector<RegistryEntry> entries = (*context)->registry().filter([&](const RegistryEntry& entry) {
    return (options.op.empty() || entry.key.op == options.op) &&
           (options.family.empty() || entry.key.family == options.family) &&
           (options.target.empty() || entry.key.target == options.target) &&
           entry.key.text.find(options.filter) != std::string::npos;
  });

  if (options.output.json) {
    // The registry's own form, which Registry::from_json takes back.
    Registry chosen;
    for (const RegistryEntry& entry : entries) chosen.add(entry);
    fmt::print("{}", chosen.to_json());
    return ExitCode::kOk;
  }
  Table table("kernels", {{"key", "kernel"},
                          {"builtin", "built in"},
                          {"priority", "priority"},
                          {"verification", "verified"},
                          {"note", "note"}});
  for (const RegistryEntry& entry : entries) {
    table.add({text_cell(entry.key.text), flag_cell(entry.builtin != nullptr, entry.builtin != nullptr ? "yes" : "no"),
               priority_cell(entry.priority), verification_cell(entry.verification), text_cell(entry.note)});
  }
  Document document("kernels");
  document.add(std::move(table));
  document.fact("count", static_cast<int64_t>(entries.size()), fmt::format("{} kernels", entries.size()));
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_kernels_command(CLI::App& program, Invocation& invocation) {
  CLI::App& kernels = add_command<KernelsOptions>(
      program, invocation,
      {"kernels", "List the known kernels with priority and verification level",
       "  tilewright kernels\n"
       "  tilewright kernels --family gemm_cpu --target x86-64-v4-amx\n"
       "  tilewright kernels --filter amx_bf16 --json    the registry's JSON form\n"
       "  tilewright kernels --quarantined\n"
       "  tilewright kernels inspect KEY                  registers, memory, and what limits its main loop"},
      [](Arguments& arguments, KernelsOptions& options) {
        arguments.text("--op", options.op, "NAME", "only this operator");
        arguments.text("--family", options.family, "NAME", "only this kernel family");
        arguments.text("--target", options.target, "NAME", "only this target");
        arguments.text("--filter", options.filter, "TEXT", "only keys that contain this text");
        arguments.flag("--quarantined", options.quarantined,
                       "only those that crashed, hung or were wrong here, and why");
        arguments.flag("--forget", options.forget, "lift the quarantine of those that --filter names (default: all)");
        add_output_arguments(arguments, options.output);
      },
      run_kernels);
  add_inspect_command(kernels, invocation);
}

}  // namespace tilewright::cli
