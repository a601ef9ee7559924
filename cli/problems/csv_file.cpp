// SPDX-License-Identifier: MIT
#include "problems/csv_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "jit/system/files.hpp"

namespace tilewright::cli {
namespace {

// Takes one record off the front of `text`; `line` moves on by the lines it takes.
std::vector<std::string> take_record(std::string_view& text, int& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        cells.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cells.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      ++i;
      break;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  text.remove_prefix(i);
  return cells;
}

}  // namespace

int CsvFile::column(const std::string& name) const {
  const auto it = std::find(columns.begin(), columns.end(), name);
  return it == columns.end() ? -1 : static_cast<int>(it - columns.begin());
}

Result<CsvFile> read_csv(const std::string& path) {
  Result<std::string> content = read_file(path);
  if (!content) return content.status();
  CsvFile file{path, {}, {}};
  std::string_view text = *content;
  for (int line = 1; !text.empty();) {
    const int first = line;
    std::vector<std::string> cells = take_record(text, line);
    if (cells.size() == 1 && cells[0].empty()) continue;  // an empty line
    if (file.columns.empty()) {
      file.columns = std::move(cells);
    } else if (cells.size() != file.columns.size()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("{}:{}: {} cells, the header names {} columns", path,
                                                              first, cells.size(), file.columns.size()));
    } else {
      file.rows.push_back({first, std::move(cells)});
    }
  }
  return file;
}

}  // namespace tilewright::cli
