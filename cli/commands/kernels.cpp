// SPDX-License-Identifier: MIT
// tilewright kernels: the registry, with priority and verification level.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "core/fields.hpp"
#include "ops/op_list.hpp"

namespace tilewright::cli {
namespace {

struct KernelsOptions {
  std::string op, family, target, filter;
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

Result<ExitCode> run_kernels(const KernelsOptions& options) {
  if (Status s = check_names(options); !s) return s;
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  add_tuned_rows(**context);
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
  add_command<KernelsOptions>(
      program, invocation,
      {"kernels", "List the known kernels with priority and verification level",
       "  tilewright kernels\n"
       "  tilewright kernels --family gemm_cpu --target x86-64-v4-amx\n"
       "  tilewright kernels --filter amx_bf16 --json    the registry's JSON form"},
      [](Arguments& arguments, KernelsOptions& options) {
        arguments.text("--op", options.op, "NAME", "only this operator");
        arguments.text("--family", options.family, "NAME", "only this kernel family");
        arguments.text("--target", options.target, "NAME", "only this target");
        arguments.text("--filter", options.filter, "TEXT", "only keys that contain this text");
        add_output_arguments(arguments, options.output);
      },
      run_kernels);
}

}  // namespace tilewright::cli
