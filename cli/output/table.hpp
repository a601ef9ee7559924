// SPDX-License-Identifier: MIT
// A table that prints three ways: aligned for people, CSV, JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "output/terminal.hpp"

namespace tilewright::cli {

using Json = nlohmann::ordered_json;

enum class Align { kLeft, kRight };

struct Column {
  std::string name;     // in CSV and JSON: "limit_frac"
  std::string heading;  // for people: "of limit"; "" = not shown to them
  Align align = Align::kLeft;
};

// A value and how people see it. A null value stands for "not known": "-", an empty CSV cell, null.
struct Cell {
  Json value;
  std::string text;
  Tone tone = Tone::kPlain;
};

Cell absent();
Cell text_cell(std::string text, Tone tone = Tone::kPlain);
// The value, and a text of its own where the plain number reads badly.
Cell number_cell(double value, std::string text, Tone tone = Tone::kPlain);
Cell count_cell(int64_t value);
Cell count_cell(int64_t value, std::string text);

class Table {
 public:
  // `name`: its member in JSON output.
  Table(std::string name, std::vector<Column> columns);
  void add(std::vector<Cell> row);
  const std::string& name() const { return name_; }
  size_t size() const { return rows_.size(); }

  std::string to_text(bool colours) const;
  std::string to_csv() const;
  Json to_json() const;

 private:
  std::string name_;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Quoted where a comma, quote or newline needs it (RFC 4180).
std::string csv_cell(const std::string& text);

}  // namespace tilewright::cli
