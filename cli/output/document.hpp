// SPDX-License-Identifier: MIT
// What one command prints: tables and single facts, in the form that was asked for.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "output/table.hpp"

namespace tilewright::cli {

enum class Form { kText, kJson, kCsv };

struct OutputOptions {
  bool json = false, csv = false;
  Form form() const { return json ? Form::kJson : csv ? Form::kCsv : Form::kText; }
};
class Arguments;
// --json and --csv, which exclude each other.
void add_output_arguments(Arguments& arguments, OutputOptions& options);

class Document {
 public:
  // `command` becomes the member "command" of the JSON form.
  explicit Document(std::string command) : command_(std::move(command)) {}
  void add(Table table) { parts_.emplace_back(std::move(table)); }
  // A member of the JSON form, a line for people, nothing in CSV. An empty line is not printed.
  void fact(std::string name, Value value, std::string line);
  // On stdout. In CSV tables are divided by an empty line.
  void print(const OutputOptions& options) const;

 private:
  struct Fact {
    std::string name;
    Value value;
    std::string line;
  };
  std::string command_;
  std::string to_json() const;

  std::vector<std::variant<Table, Fact>> parts_;
};

}  // namespace tilewright::cli
