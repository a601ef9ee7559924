// SPDX-License-Identifier: MIT
#include "tuning/tables/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/fields.hpp"

namespace tilewright {
namespace {

struct Source {
  const TunedRow* row;
  const std::string* name;
};

// "0.10.2" -> {0, 10, 2}; what is no number ends it.
std::vector<int64_t> version_of(std::string_view text) {
  std::vector<int64_t> parts;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find('.'));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    int64_t value = 0;
    if (!fields_detail::parse_integer(word, 0, int64_t{1} << 40, value)) break;
    parts.push_back(value);
  }
  return parts;
}

// "gcc (Debian 12.2.0-14) 12.2.0" -> "gcc", "12.2.0".
std::pair<std::string_view, std::string_view> name_and_version(std::string_view text) {
  const size_t last = text.rfind(' ');
  return {text.substr(0, text.find(' ')), last == std::string_view::npos ? "" : text.substr(last + 1)};
}

// Below 0: x stays; above: y; 0: nothing tells them apart. `rule` says what decided.
int prefer(const TunedRow& x, const TunedRow& y, std::string& rule) {
  const auto decide = [&rule](const auto& a, const auto& b, const char* name) {
    if (a == b) return 0;
    rule = name;
    return a > b ? -1 : 1;
  };
  if (const int d = decide(version_of(x.library), version_of(y.library), "newer library"); d != 0) return d;
  const auto [x_name, x_version] = name_and_version(x.compiler);
  const auto [y_name, y_version] = name_and_version(y.compiler);
  if (x_name == y_name) {
    if (const int d = decide(version_of(x_version), version_of(y_version), "newer compiler"); d != 0) return d;
  }
  if (std::tie(x.library, x.kernels, x.compiler) == std::tie(y.library, y.kernels, y.compiler)) {
    if (const int d = decide(-x.us, -y.us, "lower time in the same environment"); d != 0) return d;
  }
  if (const int d = decide(x.date, y.date, "newer date"); d != 0) return d;
  return decide(-x.us, -y.us, "lower time");
}

}  // namespace

MergeResult merge_tables(std::span<const NamedTable> tables) {
  std::map<std::string, std::vector<Source>> groups;
  for (const NamedTable& table : tables) {
    for (const TunedRow& row : table.rows) groups[tuned_row_key(row)].push_back({&row, &table.name});
  }
  MergeResult result;
  for (auto& [key, sources] : groups) {
    // A fixed order first, so that the order of the tables does not matter.
    std::stable_sort(sources.begin(), sources.end(), [](const Source& x, const Source& y) {
      return std::tie(x.row->date, x.row->us, x.row->recipe, *x.name) <
             std::tie(y.row->date, y.row->us, y.row->recipe, *y.name);
    });
    Source best = sources.front();
    std::string rule;
    for (size_t i = 1; i < sources.size(); ++i) {
      if (prefer(*best.row, *sources[i].row, rule) > 0) best = sources[i];
    }
    for (const Source& source : sources) {
      if (source.row == best.row) continue;
      if (source.row->recipe == best.row->recipe) {
        ++result.equal;
        continue;
      }
      rule = "first of equals";
      prefer(*best.row, *source.row, rule);
      result.conflicts.push_back({*best.row, *source.row, *best.name, *source.name, rule});
    }
    result.rows.push_back(*best.row);
  }
  return result;
}

}  // namespace tilewright
