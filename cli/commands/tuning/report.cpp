// SPDX-License-Identifier: MIT
// tilewright report: the table and the HTML report of what has been tuned here, without measuring anything.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command.hpp"
#include "results/layer_record.hpp"
#include "results/result_table.hpp"
#include "tuning/report/report.hpp"
#include "tuning/store/journal.hpp"

namespace tilewright::cli {
namespace {

struct ReportOptions {
  std::string out = "tilewright-report.html", title = "Tuning report";
  std::vector<std::string> layers;
  int threads = 0;
  OutputOptions output;
};

Result<ExitCode> run_report(const ReportOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  const DeviceSpec spec = (*context)->spec(options.threads);
  const RecordStore store(spec.arch->target);
  std::vector<LayerRecord> records;
  for (const LayerRecord& record : store.records()) {
    const bool wanted = options.layers.empty() ||
                        std::find(options.layers.begin(), options.layers.end(), record.layer) != options.layers.end();
    // A record of an operator or of a text form that this version does not know is passed over.
    if (wanted && record.part == spec.part && record.units == spec.units && result_of(**context, record).status.ok()) {
      records.push_back(record);
    }
  }
  if (records.empty()) {
    return Status(
        StatusCode::kNotFound,
        fmt::format("nothing has been tuned for {} cores of part {} yet: tilewright tune --model llama-3.1-8b",
                    spec.units, spec.part));
  }
  // Candidates, and why some were rejected, stand in the tuner's journal.
  const Journal journal(tuning_journal_path(spec.arch->target), tuning_environment(**context, spec.units), false,
                        FileAccess::kRead);
  std::vector<TuneResult> results;
  for (const LayerRecord& record : records) {
    TuneResult result = result_of(**context, record);
    const JournalTask* task = journal.find(record.op, record.problem);
    if (task != nullptr && task->finished) result.candidates = task->result.candidates;
    results.push_back(std::move(result));
  }
  ReportData report = report_data(**context, results, store.limits(spec.part, spec.units), spec.units);
  report.title = options.title;
  add_records(records, report);
  const QuarantineList quarantine(quarantine_path(spec.arch->target), **context, FileAccess::kRead);
  add_quarantine(quarantine, report);
  if (Status s = write_report(report, options.out); !s) return s;

  Document document("report");
  document.add(result_table(**context, records));
  add_summary(summarise(records), document);
  add_quarantine_fact(quarantine, document);
  std::error_code error;
  const std::string path = std::filesystem::absolute(options.out, error).string();
  document.fact("report", path, "report: " + path);
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_report_command(CLI::App& program, Invocation& invocation) {
  add_command<ReportOptions>(
      program, invocation,
      {"report", "Show again what has been tuned; write the HTML report",
       "  tilewright report --out report.html\n"
       "  tilewright report --layer attn_o,mlp_down --csv"},
      [](Arguments& arguments, ReportOptions& options) {
        arguments.text("--out", options.out, "FILE", "the HTML file (tilewright-report.html)");
        arguments.text("--title", options.title, "TEXT", "its title");
        arguments.texts("--layer", options.layers, "NAME", "only these layers", /*commas=*/true);
        add_threads_argument(arguments, options.threads);
        add_output_arguments(arguments, options.output);
      },
      run_report);
}

}  // namespace tilewright::cli
