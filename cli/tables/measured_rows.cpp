// SPDX-License-Identifier: MIT
#include "tables/measured_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/fields.hpp"
#include "dispatch/choice/tuned_table.hpp"
#include "jit/system/files.hpp"
#include "problems/csv_file.hpp"

namespace tilewright::cli {
namespace {

using nlohmann::json;

std::vector<MeasuredRow> rows_of_table(const std::vector<TunedRow>& rows) {
  std::vector<MeasuredRow> measured;
  for (const TunedRow& row : rows) {
    MeasuredRow m;
    m.key =
        fmt::format("{} {} {} {} {} {} {}", row.op, row.target, row.part, row.units, row.core, row.epilogue, row.sizes);
    m.label = fmt::format("{} {} {} {}, {} unit{}", row.op, row.core, row.epilogue, row.sizes, row.units,
                          row.units == 1 ? "" : "s");
    m.us = row.us, m.spread = row.spread, m.recipe = row.recipe;
    measured.push_back(std::move(m));
  }
  return measured;
}

Result<std::vector<MeasuredRow>> bench_rows(const CsvFile& file) {
  std::vector<MeasuredRow> measured;
  for (const CsvFile::Row& row : file.rows) {
    const auto text = [&](const char* name) {
      const int column = file.column(name);
      return column < 0 ? std::string() : row.cells[static_cast<size_t>(column)];
    };
    const auto number = [&](const char* name) {
      double value = 0;
      return fields_detail::parse_float(text(name), value).ok() ? value : 0;
    };
    MeasuredRow m;
    m.key = fmt::format("{} {} {} {} {}", text("op"), text("shape"), text("device"), text("threads"), text("edges"));
    m.label = fmt::format("{} {}, {} threads", text("op"), text("shape"), text("threads"));
    m.us = number("us"), m.spread = number("spread"), m.recipe = text("kernel");
    m.limit_fraction = number("limit_frac");
    m.peer = text("peer"), m.ratio = number("ratio"), m.low = number("ratio_low"), m.high = number("ratio_high");
    if (m.us <= 0) {
      return Status(StatusCode::kCorrupt, fmt::format("{}:{}: column 'us' must be above 0", file.path, row.line));
    }
    measured.push_back(std::move(m));
  }
  return measured;
}

Result<std::vector<MeasuredRow>> rows_of_results(const json& file, const std::string& path) {
  std::vector<MeasuredRow> measured;
  const auto rows = file.find("rows");
  if (rows == file.end() || !rows->is_array()) return Status(StatusCode::kCorrupt, path + ": no rows");
  for (const json& row : *rows) {
    if (!row.is_object()) continue;
    const auto text = [&row](const char* name) {
      const auto it = row.find(name);
      return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    const auto number = [&row](const char* name) {
      const auto it = row.find(name);
      return it != row.end() && it->is_number() ? it->get<double>() : 0.0;
    };
    MeasuredRow m;
    const int units = static_cast<int>(number("units"));
    m.key = fmt::format("{} {} {} {}", text("op"), text("problem"), text("part"), units);
    m.label = fmt::format("{} {}, {} unit{}", text("op"), text("problem"), units, units == 1 ? "" : "s");
    m.us = number("us"), m.spread = number("spread"), m.recipe = text("recipe");
    m.peer = text("peer"), m.ratio = number("ratio"), m.low = number("ratio_low"), m.high = number("ratio_high");
    if (m.us > 0) measured.push_back(std::move(m));
  }
  return measured;
}

// What the machine did between the two runs cancels out in rows that were measured in pairs with the same thing.
void pair_by_peer(const MeasuredRow& a, const MeasuredRow& b, RowComparison& out) {
  if (!a.peer.empty() && a.peer == b.peer && a.ratio > 0 && b.ratio > 0) {
    out.paired = b.ratio / a.ratio, out.paired_by = a.peer;
    if (a.low > 0 && b.low > 0) out.low = b.low / a.high, out.high = b.high / a.low;
  } else if (a.limit_fraction > 0 && b.limit_fraction > 0) {
    out.paired = b.limit_fraction / a.limit_fraction, out.paired_by = "limit";
  }
}

}  // namespace

Result<std::vector<MeasuredRow>> read_measured(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.status();
  const std::string header = text->substr(0, text->find_first_of("\r\n"));
  if (header.starts_with("op,target,part,")) {
    std::vector<std::string> problems;
    const std::vector<TunedRow> rows = parse_tuned_csv(*text, path, problems);
    if (!problems.empty()) return Status(StatusCode::kCorrupt, problems.front());
    return rows_of_table(rows);
  }
  if (header.starts_with("op,shape,")) {
    Result<CsvFile> file = read_csv(path);
    if (!file) return file.status();
    return bench_rows(*file);
  }
  const json file = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (file.is_object() && file.contains("tilewright_results")) return rows_of_results(file, path);
  return Status(
      StatusCode::kInvalidArgument,
      fmt::format("'{}' is none of: a tuned table, a bench's CSV file, a results file of `tilewright tune`", path));
}

const char* verdict_name(RowComparison::Verdict verdict) {
  constexpr const char* kNames[] = {"same", "faster", "slower", "only in A", "only in B"};
  return kNames[static_cast<int>(verdict)];
}

std::vector<RowComparison> compare_rows(const std::vector<MeasuredRow>& a, const std::vector<MeasuredRow>& b,
                                        double threshold) {
  using Verdict = RowComparison::Verdict;
  // A bench has a row for each peer.
  using Index = std::map<std::string_view, std::vector<const MeasuredRow*>>;
  const auto index_of = [](const std::vector<MeasuredRow>& rows) {
    Index index;
    for (const MeasuredRow& row : rows) index[row.key].push_back(&row);
    return index;
  };
  const Index in_a = index_of(a), in_b = index_of(b);
  std::vector<RowComparison> compared;
  for (const MeasuredRow& row : a) {
    if (in_a.at(row.key).front() != &row) continue;
    RowComparison one;
    one.key = row.key, one.label = row.label, one.a_us = row.us;
    const auto others = in_b.find(row.key);
    if (others == in_b.end()) {
      one.verdict = Verdict::kOnlyA;
      compared.push_back(std::move(one));
      continue;
    }
    const MeasuredRow* const other = others->second.front();
    one.b_us = other->us, one.speedup = row.us / other->us, one.same_recipe = row.recipe == other->recipe;
    // The first peer that both have, else the limit.
    for (const MeasuredRow* mine : in_a.at(row.key)) {
      for (const MeasuredRow* theirs : others->second) {
        if (one.paired_by.empty() || one.paired_by == "limit") pair_by_peer(*mine, *theirs, one);
      }
    }
    const double ratio = one.decisive(), noise = row.spread + other->spread;
    const bool interval = one.low > 0 && one.high > 0;
    if (ratio > 1 + threshold && (interval ? one.low > 1 : ratio > 1 + noise)) one.verdict = Verdict::kFaster;
    if (ratio < 1 - threshold && (interval ? one.high < 1 : ratio < 1 - noise)) one.verdict = Verdict::kSlower;
    compared.push_back(std::move(one));
  }
  for (const MeasuredRow& row : b) {
    if (in_a.contains(row.key) || in_b.at(row.key).front() != &row) continue;
    RowComparison one;
    one.key = row.key, one.label = row.label, one.b_us = row.us, one.verdict = Verdict::kOnlyB;
    compared.push_back(std::move(one));
  }
  return compared;
}

}  // namespace tilewright::cli
