// SPDX-License-Identifier: MIT
// What one command prints: tables and single facts, in the form that was asked for.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "output/table.hpp"

namespace CLI {
class App;
}

namespace tilewright::cli {

enum class Form { kText, kJson, kCsv };

struct OutputOptions {
  bool json = false, csv = false;
  Form form() const { return json ? Form::kJson : csv ? Form::kCsv : Form::kText; }
};
// --json and --csv, which exclude each other.
void add_output_options(CLI::App& command, OutputOptions& options);

class Document {
 public:
  // `command` becomes the member "command" of the JSON form.
  explicit Document(std::string command) : command_(std::move(command)) {}
  void add(Table table) { parts_.emplace_back(std::move(table)); }
  // A member of the JSON form, a line for people, nothing in CSV. An empty line is not printed.
  void fact(std::string name, Json value, std::string line);
  // Adds an element to the array member `name` of the JSON form; nothing elsewhere.
  void append(const std::string& name, Json element) { arrays_[name].push_back(std::move(element)); }
  // On stdout. In CSV tables are divided by an empty line.
  void print(const OutputOptions& options) const;

 private:
  struct Fact {
    std::string name;
    Json value;
    std::string line;
  };
  std::string command_;
  std::vector<std::variant<Table, Fact>> parts_;
  Json arrays_ = Json::object();
};

}  // namespace tilewright::cli
