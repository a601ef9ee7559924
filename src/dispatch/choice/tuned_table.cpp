// SPDX-License-Identifier: MIT
#include "dispatch/choice/tuned_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/environment.hpp"
#include "core/fields.hpp"
#include "core/log.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

std::string exact_key(std::string_view op, std::string_view target, std::string_view part, int units,
                      const std::string& core, const std::string& epilogue, const std::string& sizes) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", op, target, part, units, core, epilogue, sizes);
}

std::string bucket_key(std::string_view op, std::string_view target, std::string_view part, int units,
                       const std::string& core, const std::string& bucket) {
  return fmt::format("{}|{}|{}|{}|{}|{}", op, target, part, units, core, bucket);
}

// Where each field stands in a file's lines, in the order of the fields; -1 = the file has no such column.
struct Columns {
  std::vector<int> place;
  size_t count = 0;
};

// Rows without a key, a choice or a time are none; what says how they were measured came version by version.
constexpr std::string_view kNeededColumns[] = {"op",       "target", "part",   "units",  "core",
                                               "epilogue", "sizes",  "bucket", "recipe", "us"};

bool parse_header(std::string_view line, Columns& columns) {
  std::vector<std::string_view> names;
  while (true) {
    const size_t comma = line.find(',');
    names.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  columns.count = names.size();
  size_t known = 0;
  for_each_field(TunedRow(), [&](const char* name, const auto&) {
    const auto at = std::find(names.begin(), names.end(), name);
    columns.place.push_back(at == names.end() ? -1 : static_cast<int>(at - names.begin()));
    known += at != names.end();
  });
  const bool whole = std::all_of(
      std::begin(kNeededColumns), std::end(kNeededColumns),
      [&names](std::string_view needed) { return std::find(names.begin(), names.end(), needed) != names.end(); });
  return whole && known == names.size();
}

Status parse_row(std::string_view line, const Columns& columns, TunedRow& row) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  if (cells.size() != columns.count) {
    return Status(StatusCode::kCorrupt, fmt::format("{} cells, {} columns", cells.size(), columns.count));
  }
  Status status;
  size_t field_index = 0;
  for_each_field(row, [&](const char* name, auto& field) {
    const int place = columns.place[field_index++];
    if (!status.ok() || place < 0) return;
    status = fields_detail::parse_value(cells[static_cast<size_t>(place)], field);
    if (!status.ok()) status = Status(StatusCode::kCorrupt, fmt::format("column '{}': {}", name, status.message()));
  });
  if (status.ok() && !(row.us > 0)) status = Status(StatusCode::kCorrupt, "column 'us' must be above 0");
  if (status.ok() && row.recipe.empty()) status = Status(StatusCode::kCorrupt, "column 'recipe' is empty");
  return status;
}

void load_text(std::string_view text, const char* name, const std::string& path, TunedTable& table) {
  TunedLayer layer{name, path, 0, {}};
  std::vector<TunedRow> rows = parse_tuned_csv(text, path, layer.problems);
  for (const std::string& problem : layer.problems) log(LogLevel::kWarn, "tuned", "row ignored: {}", problem);
  table.add_layer(std::move(rows), std::move(layer));
}

void load_file(const fs::path& path, const char* name, TunedTable& table) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return;
  std::stringstream text;
  text << file.rdbuf();
  load_text(text.str(), name, path.string(), table);
}

void load_path(const fs::path& path, const char* name, TunedTable& table) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    load_file(path, name, table);
    return;
  }
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".csv") files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) load_file(file, name, table);
}

}  // namespace

std::string tuned_row_key(const TunedRow& row) {
  return fmt::format("{},{},{},{},{},{},{}", row.op, row.target, row.part, row.units, row.core, row.epilogue,
                     row.sizes);
}

std::string tuned_csv_header() {
  std::string text;
  for_each_field(TunedRow(), [&text](const char* name, const auto&) {
    if (!text.empty()) text += ',';
    text += name;
  });
  return text;
}

Result<std::string> print_tuned_row(const TunedRow& row) {
  std::string text;
  bool first = true;
  for_each_field(row, [&](const char*, const auto& field) {
    if (!first) text += ',';
    first = false;
    text += fields_detail::print_value(field);  // a double's shortest text that reads back as the same
  });
  const int columns = static_cast<int>(std::count(text.begin(), text.end(), ','));
  const std::string header = tuned_csv_header();
  if (columns != std::count(header.begin(), header.end(), ',') || text.find_first_of("\"\r\n") != std::string::npos) {
    return Status(StatusCode::kInvalidArgument, "tuned row: a cell holds a comma, quote or newline: " + text);
  }
  return text;
}

std::vector<TunedRow> parse_tuned_csv(std::string_view text, std::string_view origin,
                                      std::vector<std::string>& problems) {
  std::vector<TunedRow> rows;
  int number = 0;
  bool header_seen = false;
  Columns columns;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (!header_seen) {
      if (!parse_header(line, columns)) {
        problems.push_back(
            fmt::format("{}:{}: header differs from this version's columns; file ignored", origin, number));
        return {};
      }
      header_seen = true;
      continue;
    }
    TunedRow row;
    if (Status s = parse_row(line, columns, row); !s) {
      problems.push_back(fmt::format("{}:{}: {}", origin, number, s.message()));
      continue;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void TunedTable::add_layer(std::vector<TunedRow> rows, TunedLayer layer) {
  layer.rows = rows.size();
  for (TunedRow& row : rows) {
    row.layer = static_cast<int32_t>(layers_.size());
    std::string exact = exact_key(row.op, row.target, row.part, row.units, row.core, row.epilogue, row.sizes);
    bucket_[bucket_key(row.op, row.target, row.part, row.units, row.core, row.bucket)] = exact;
    exact_[std::move(exact)] = std::move(row);
  }
  layers_.push_back(std::move(layer));
}

std::string TunedTable::origin(const TunedRow& row) const {
  if (row.layer < 0 || static_cast<size_t>(row.layer) >= layers_.size()) return "unknown";
  const TunedLayer& layer = layers_[static_cast<size_t>(row.layer)];
  return layer.path.empty() ? layer.name : fmt::format("{} ({})", layer.name, layer.path);
}

const TunedRow* TunedTable::find_exact(std::string_view op, std::string_view target, std::string_view part, int units,
                                       const ProblemSignature& s) const {
  if (exact_.empty()) return nullptr;
  const auto it = exact_.find(exact_key(op, target, part, units, s.core, s.epilogue, s.sizes));
  return it == exact_.end() ? nullptr : &it->second;
}

const TunedRow* TunedTable::find_bucket(std::string_view op, std::string_view target, std::string_view part, int units,
                                        const ProblemSignature& s) const {
  if (bucket_.empty()) return nullptr;
  const auto it = bucket_.find(bucket_key(op, target, part, units, s.core, s.bucket));
  if (it == bucket_.end()) return nullptr;
  const auto row = exact_.find(it->second);
  return row == exact_.end() ? nullptr : &row->second;
}

std::vector<const TunedRow*> TunedTable::rows() const {
  std::vector<std::pair<std::string_view, const TunedRow*>> sorted;
  for (const auto& [key, row] : exact_) sorted.emplace_back(key, &row);
  std::sort(sorted.begin(), sorted.end());
  std::vector<const TunedRow*> rows;
  for (const auto& [key, row] : sorted) rows.push_back(row);
  return rows;
}

Digest TunedTable::digest() const {
  Digester digester;
  for (const TunedRow* row : rows()) {
    digester.update(exact_key(row->op, row->target, row->part, row->units, row->core, row->epilogue, row->sizes));
    digester.update(row->recipe);
  }
  return digester.finish();
}

TunedTable load_tuned_tables(bool user_tables, const std::vector<std::string>& extra_files) {
  TunedTable table;
  for (const EmbeddedTable& embedded : embedded_tables()) {
    load_text(embedded.text, "built in", std::string(embedded.path), table);
  }
  if (user_tables) {
    if (const std::string data = user_data_dir(); !data.empty()) load_path(fs::path(data) / "tuned", "user", table);
    std::stringstream named(environment("TILEWRIGHT_TUNED").value_or(""));
    for (std::string path; std::getline(named, path, ':');) {
      if (!path.empty()) load_path(path, "TILEWRIGHT_TUNED", table);
    }
  }
  for (const std::string& path : extra_files) load_path(path, "option", table);
  return table;
}

std::string user_tuned_path(std::string_view target, std::string_view op) {
  const std::string data = user_data_dir();
  return data.empty() ? "" : fmt::format("{}/tuned/{}/{}.csv", data, target, op);
}

}  // namespace tilewright
