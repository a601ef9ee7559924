// SPDX-License-Identifier: MIT
// One line of text that a worker pipe and a journal speak: a verb and name=value fields, separated by tabs. Values may
// hold anything; tabs, newlines and backslashes are escaped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

class Record {
 public:
  Record() = default;
  explicit Record(std::string verb) : verb_(std::move(verb)) {}

  Record& set(std::string_view name, std::string_view value);
  Record& set(std::string_view name, double value);
  Record& set(std::string_view name, int64_t value);

  const std::string& verb() const { return verb_; }
  bool has(std::string_view name) const;
  // "" and 0 when the field is absent or no number.
  std::string_view get(std::string_view name) const;
  double number(std::string_view name) const;
  int64_t integer(std::string_view name) const;

  std::string line() const;  // without the newline
  static Result<Record> parse(std::string_view line);

 private:
  std::string verb_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace tilewright
