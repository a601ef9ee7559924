// SPDX-License-Identifier: MIT
#include "output/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tilewright::cli {
namespace {

std::string pad(const std::string& text, size_t width, Align align) {
  const size_t have = display_width(text);
  const std::string space(width > have ? width - have : 0, ' ');
  return align == Align::kLeft ? text + space : space + text;
}

struct CsvText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{:.6g}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::string>& value) const {
    return fmt::format("{}", fmt::join(value, " "));
  }
};

}  // namespace

Cell absent() { return {{}, "-", Tone::kFaint}; }

Cell text_cell(std::string text, Tone tone) { return {text, text, tone}; }

Cell number_cell(double value, std::string text, Tone tone) {
  if (!std::isfinite(value)) return absent();
  return {value, std::move(text), tone};
}

Cell positive_cell(double value, std::string text, Tone tone) {
  return value > 0 ? number_cell(value, std::move(text), tone) : absent();
}

Tone ratio_tone(double low, double high) {
  constexpr double kNoise = 0.05;
  return low >= 1 ? Tone::kGood : high < 1 - kNoise ? Tone::kBad : Tone::kPlain;
}

Cell count_cell(int64_t value) { return {value, fmt::format("{}", value)}; }

Cell count_cell(int64_t value, std::string text) { return {value, std::move(text)}; }

Cell flag_cell(bool value, std::string text, Tone tone) { return {value, std::move(text), tone}; }

Table::Table(std::string name, std::vector<Column> columns) : name_(std::move(name)), columns_(std::move(columns)) {}

void Table::add(std::vector<Cell> row) {
  assert(row.size() == columns_.size() && "a row has one cell a column");
  rows_.push_back(std::move(row));
}

std::string Table::to_text(bool colours) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = display_width(columns_[c].heading);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c].text));
    widths.push_back(width);
  }
  std::string text;
  auto add_line = [&](auto cell_text, auto cell_tone) {
    std::string line;
    size_t blanks = 0;  // trailing blanks are left out
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].heading.empty()) continue;
      const std::string padded = pad(cell_text(c), widths[c], columns_[c].align);
      const size_t end = padded.find_last_not_of(' ');
      const std::string body = end == std::string::npos ? "" : padded.substr(0, end + 1);
      if (!body.empty()) {
        line += std::string(blanks, ' ') + toned(body, cell_tone(c), colours);
        blanks = 0;
      }
      blanks += padded.size() - body.size() + 2;
    }
    text += line + "\n";
  };
  add_line([&](size_t c) { return columns_[c].heading; }, [](size_t) { return Tone::kStrong; });
  for (const auto& row : rows_) {
    add_line([&](size_t c) { return row[c].text; }, [&](size_t c) { return row[c].tone; });
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string Table::to_csv() const {
  std::string text;
  for (size_t c = 0; c < columns_.size(); ++c) text += (c > 0 ? "," : "") + csv_cell(columns_[c].name);
  text += "\n";
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) text += ",";
      text += csv_cell(std::visit(CsvText(), row[c].value));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tilewright::cli
