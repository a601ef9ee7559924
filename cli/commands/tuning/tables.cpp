// SPDX-License-Identifier: MIT
// tilewright tables: the layers of tuned tables, their rows, merging and exporting them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "command.hpp"
#include "jit/system/files.hpp"
#include "output/numbers.hpp"
#include "problems/captured/captured_shapes.hpp"
#include "results/recipe_text.hpp"
#include "tables/aiter_export.hpp"
#include "tuning/store/provenance.hpp"
#include "tuning/store/table_store.hpp"
#include "tuning/tables/merge.hpp"

namespace tilewright::cli {
namespace {

constexpr const char* kOtherDevice = "another device";

// "fresh", what has changed, or that it is not this device's.
std::string state_of(const TunedRow& row, const DeviceSpec& spec) {
  if (spec.arch == nullptr || row.target != spec.arch->target || row.part != spec.part) return kOtherDevice;
  const std::vector<std::string> reasons = stale_reasons(row, spec);
  return reasons.empty() ? "fresh" : "stale: " + join(reasons, "; ");
}

// ---- list ----

struct ListOptions {
  OutputOptions output;
};

Result<ExitCode> run_list(const ListOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  const DeviceSpec spec = (*context)->spec(0);
  const std::shared_ptr<const TunedTable> tables = (*context)->tables();
  struct Count {
    int64_t in_effect = 0, fresh = 0, stale = 0;
  };
  std::vector<Count> counts(tables->layers().size());
  for (const TunedRow* row : tables->rows()) {
    if (row->layer < 0) continue;
    Count& count = counts[static_cast<size_t>(row->layer)];
    const std::string state = state_of(*row, spec);
    ++count.in_effect;
    count.fresh += state == "fresh", count.stale += state.starts_with("stale");
  }
  Table table("layers", {{"layer", "layer"},
                         {"path", "table"},
                         {"rows", "rows", Align::kRight},
                         {"in_effect", "in effect", Align::kRight},
                         {"fresh", "fresh here", Align::kRight},
                         {"stale", "stale here", Align::kRight},
                         {"ignored", "ignored", Align::kRight}});
  Table problems("ignored", {{"line", "ignored rows"}});
  for (size_t i = 0; i < tables->layers().size(); ++i) {
    const TunedLayer& layer = tables->layers()[i];
    table.add({text_cell(layer.name), text_cell(layer.path), count_cell(static_cast<int64_t>(layer.rows)),
               count_cell(counts[i].in_effect), count_cell(counts[i].fresh), count_cell(counts[i].stale),
               count_cell(static_cast<int64_t>(layer.problems.size()))});
    for (const std::string& problem : layer.problems) problems.add({text_cell(problem)});
  }
  Document document("tables list");
  document.add(std::move(table));
  if (problems.size() > 0) document.add(std::move(problems));
  document.fact("digest", tables->digest().hex(), fmt::format("digest of all choices: {}", tables->digest().hex()));
  document.print(options.output);
  return ExitCode::kOk;
}

// ---- show ----

struct ShowOptions {
  std::string filter;
  OutputOptions output;
};

Result<ExitCode> run_show(const ShowOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  const DeviceSpec spec = (*context)->spec(0);
  const std::shared_ptr<const TunedTable> tables = (*context)->tables();
  Table table("rows", {{"op", "op"},
                       {"target", ""},
                       {"part", "part"},
                       {"units", "units", Align::kRight},
                       {"core", "core"},
                       {"epilogue", "epilogue"},
                       {"sizes", "sizes"},
                       {"us", "us", Align::kRight},
                       {"gain", "gain", Align::kRight},
                       {"date", ""},
                       {"library", ""},
                       {"compiler", ""},
                       {"layer", "layer"},
                       {"state", "state"},
                       {"recipe", ""},
                       {"short_recipe", "recipe"}});
  for (const TunedRow* row : tables->rows()) {
    const Result<std::string> line = print_tuned_row(*row);
    if (!line || line->find(options.filter) == std::string::npos) continue;
    const double gain = row->untuned_us / row->us;
    const std::string state = state_of(*row, spec);
    table.add({text_cell(row->op), text_cell(row->target), text_cell(row->part), count_cell(row->units),
               text_cell(row->core), text_cell(row->epilogue), text_cell(row->sizes),
               number_cell(row->us, print_significant(row->us, 4)),
               gain > 0 ? number_cell(gain, print_ratio(gain)) : absent(), text_cell(row->date),
               text_cell(row->library), text_cell(row->compiler), text_cell(tables->origin(*row)),
               text_cell(state, state == "fresh" ? Tone::kGood : Tone::kPlain), text_cell(row->recipe),
               text_cell(short_recipe(row->recipe))});
  }
  Document document("tables show");
  const auto shown = static_cast<int64_t>(table.size());
  document.add(std::move(table));
  document.fact("count", shown, fmt::format("{} rows", shown));
  document.print(options.output);
  return ExitCode::kOk;
}

// ---- merge ----

struct MergeOptions {
  std::vector<std::string> files;
  std::string out;
  OutputOptions output;
};

Result<std::vector<TunedRow>> read_table(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.status();
  std::vector<std::string> problems;
  std::vector<TunedRow> rows = parse_tuned_csv(*text, path, problems);
  // A row that is lost in a merge would be lost silently.
  if (!problems.empty()) return Status(StatusCode::kCorrupt, problems.front());
  return rows;
}

Status write_merged(const std::string& out, const std::vector<TunedRow>& rows) {
  std::string text = tuned_csv_header() + "\n";
  for (const TunedRow& row : rows) {
    const Result<std::string> line = print_tuned_row(row);
    if (!line) return line.status();
    text += *line + "\n";
  }
  return write_file(out, text);
}

// Into the user's tables, with the same rule between their rows and the new ones.
Status store_merged(std::vector<NamedTable> inputs, MergeResult& merged, std::vector<std::string>& places) {
  std::map<std::string, NamedTable> users;
  for (const TunedRow& row : merged.rows) {
    const std::string path = user_tuned_path(row.target, row.op);
    if (path.empty()) {
      return Status(StatusCode::kIoError, "no home directory: give --out FILE, or set TILEWRIGHT_DATA_DIR");
    }
    if (users.contains(path)) continue;
    users[path].name = path;
    if (!is_file(path)) continue;
    Result<std::vector<TunedRow>> rows = read_table(path);
    if (!rows) return rows.status();
    users[path].rows = std::move(*rows);
  }
  for (auto& [path, table] : users) inputs.push_back(table);
  merged = merge_tables(inputs);
  for (const auto& [path, table] : users) {
    std::vector<TunedRow> own;
    for (const TunedRow& row : merged.rows) {
      if (user_tuned_path(row.target, row.op) == path) own.push_back(row);
    }
    if (Status s = store_tuned_rows(path, own); !s) return s;
    places.push_back(path);
  }
  return {};
}

Result<ExitCode> run_merge(const MergeOptions& options) {
  if (options.files.empty()) return Status(StatusCode::kInvalidArgument, "tables merge takes one or more tuned tables");
  std::vector<NamedTable> inputs;
  for (const std::string& path : options.files) {
    Result<std::vector<TunedRow>> rows = read_table(path);
    if (!rows) return rows.status();
    inputs.push_back({path, std::move(*rows)});
  }
  MergeResult merged = merge_tables(inputs);
  std::vector<std::string> places;
  if (options.out.empty()) {
    if (Status s = store_merged(std::move(inputs), merged, places); !s) return s;
  } else {
    if (Status s = write_merged(options.out, merged.rows); !s) return s;
    places.push_back(options.out);
  }
  Table conflicts("conflicts", {{"op", ""},
                                {"sizes", "conflict"},
                                {"core", "core"},
                                {"units", "units", Align::kRight},
                                {"kept_us", "kept us", Align::kRight},
                                {"kept_from", "from"},
                                {"kept_recipe", ""},
                                {"dropped_us", "dropped us", Align::kRight},
                                {"dropped_from", "from"},
                                {"dropped_recipe", ""},
                                {"rule", "because of"}});
  for (const MergeConflict& c : merged.conflicts) {
    conflicts.add({text_cell(c.kept.op), text_cell(c.kept.sizes), text_cell(c.kept.core), count_cell(c.kept.units),
                   number_cell(c.kept.us, print_significant(c.kept.us, 4)), text_cell(c.kept_from),
                   text_cell(c.kept.recipe), number_cell(c.dropped.us, print_significant(c.dropped.us, 4)),
                   text_cell(c.dropped_from), text_cell(c.dropped.recipe), text_cell(c.rule)});
  }
  Document document("tables merge");
  const size_t conflict_count = conflicts.size();
  if (conflict_count > 0 || options.output.form() != Form::kText) document.add(std::move(conflicts));
  document.fact(
      "rows", static_cast<int64_t>(merged.rows.size()),
      fmt::format("{} rows; {} conflicts, {} rows stood twice", merged.rows.size(), conflict_count, merged.equal));
  document.fact("equal", static_cast<int64_t>(merged.equal), "");
  document.fact("tables", places, "written to " + join(places));
  document.print(options.output);
  return ExitCode::kOk;
}

// ---- export ----

struct ExportOptions {
  std::vector<std::string> files;
  std::string format = "aiter", out = ".";
  OutputOptions output;
};

Result<ExitCode> run_export(const ExportOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  std::shared_ptr<const TunedTable> tables = (*context)->tables();
  if (!options.files.empty()) {
    auto named = std::make_shared<TunedTable>();
    for (const std::string& path : options.files) {
      Result<std::vector<TunedRow>> rows = read_table(path);
      if (!rows) return rows.status();
      named->add_layer(std::move(*rows));
    }
    tables = named;
  }
  if (tables->size() == 0) return Status(StatusCode::kNotFound, "there are no tuned rows to export");
  const AiterFiles files = export_aiter(tables->rows());
  if (Status s = make_folders(options.out); !s) return s;
  Table table("files", {{"file", "file"}, {"rows", "rows", Align::kRight}});
  for (const auto& [name, text] : files.text) {
    const std::string path = (std::filesystem::path(options.out) / name).string();
    if (Status s = write_file(path, text); !s) return s;
    table.add({text_cell(path), count_cell(files.rows.at(name))});
  }
  Document document("tables export");
  document.add(std::move(table));
  if (!files.skipped.empty()) document.add(skipped_table(files.skipped));
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_tables_command(CLI::App& program, Invocation& invocation) {
  CLI::App& tables = add_command_group(program, {"tables", "Show, merge and export tuned tables",
                                                 "  tilewright tables list\n"
                                                 "  tilewright tables merge shard1.csv shard2.csv --out tuned.csv"});
  add_command<ListOptions>(
      tables, invocation, {"list", "The layers, built in < user < TILEWRIGHT_TUNED", "  tilewright tables list --json"},
      [](Arguments& arguments, ListOptions& options) { add_output_arguments(arguments, options.output); }, run_list);
  add_command<ShowOptions>(
      tables, invocation,
      {"show", "Every row in effect, its layer, and whether it is fresh", "  tilewright tables show --filter n=4096"},
      [](Arguments& arguments, ShowOptions& options) {
        arguments.text("--filter", options.filter, "TEXT", "only rows whose CSV line contains this text");
        add_output_arguments(arguments, options.output);
      },
      run_show);
  add_command<MergeOptions>(
      tables, invocation,
      {"merge", "Merge tables that were tuned apart; conflicts are shown",
       "  tilewright tables merge shard*.csv --out tuned.csv\n"
       "  tilewright tables merge from_another_machine.csv          into the user's tables"},
      [](Arguments& arguments, MergeOptions& options) {
        arguments.positionals("FILE", options.files, "tuned tables");
        arguments.text("--out", options.out, "FILE", "write here instead of into the user's tables");
        add_output_arguments(arguments, options.output);
      },
      run_merge);
  add_command<ExportOptions>(
      tables, invocation,
      {"export", "Tuned rows in the columns of AITER's tuned files",
       "  tilewright tables export --format aiter --out aiter_configs"},
      [](Arguments& arguments, ExportOptions& options) {
        arguments.positionals("FILE", options.files, "tuned tables (default: the rows in effect)");
        arguments.choice("--format", options.format, {"aiter"}, "whose columns");
        arguments.text("--out", options.out, "FOLDER", "where the files go (.)");
        add_output_arguments(arguments, options.output);
      },
      run_export);
}

}  // namespace tilewright::cli
