// SPDX-License-Identifier: MIT
// A table that prints three ways: aligned for people, CSV, JSON.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "output/terminal.hpp"

namespace tilewright::cli {

// What programs read; monostate = not known.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

enum class Align { kLeft, kRight };

struct Column {
  std::string name;     // in CSV and JSON: "limit_frac"
  std::string heading;  // for people: "of limit"; "" = not shown to them
  Align align = Align::kLeft;
};

// A value and how people see it. What is not known is "-", an empty CSV cell, null in JSON.
struct Cell {
  Value value;
  std::string text;
  Tone tone = Tone::kPlain;
};
// Of a ratio, by its 95 % interval.
Tone ratio_tone(double low, double high);

Cell absent();
Cell text_cell(std::string text, Tone tone = Tone::kPlain);
// The value, and a text of its own where the plain number reads badly.
Cell number_cell(double value, std::string text, Tone tone = Tone::kPlain);
// Absent unless above 0.
Cell positive_cell(double value, std::string text, Tone tone = Tone::kPlain);
Cell count_cell(int64_t value);
Cell count_cell(int64_t value, std::string text);
Cell flag_cell(bool value, std::string text, Tone tone = Tone::kPlain);

class Table {
 public:
  // `name`: its member in JSON output.
  Table(std::string name, std::vector<Column> columns);
  void add(std::vector<Cell> row);
  const std::string& name() const { return name_; }
  size_t size() const { return rows_.size(); }

  std::string to_text(bool colours) const;
  std::string to_csv() const;
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  std::string name_;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Quoted where a comma, quote or newline needs it (RFC 4180).
std::string csv_cell(const std::string& text);

}  // namespace tilewright::cli
