// SPDX-License-Identifier: MIT
#include "output/document.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace tilewright::cli {
namespace {

void write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

void add_output_options(CLI::App& command, OutputOptions& options) {
  CLI::Option* json = command.add_flag("--json", options.json, "print JSON")->group("Output");
  command.add_flag("--csv", options.csv, "print CSV")->group("Output")->excludes(json);
}

void Document::fact(std::string name, Json value, std::string line) {
  parts_.emplace_back(Fact{std::move(name), std::move(value), std::move(line)});
}

void Document::print(const OutputOptions& options) const {
  if (options.form() == Form::kJson) {
    Json json = {{"command", command_}};
    for (const auto& part : parts_) {
      if (const auto* table = std::get_if<Table>(&part)) {
        json[table->name()] = table->to_json();
      } else {
        json[std::get<Fact>(part).name] = std::get<Fact>(part).value;
      }
    }
    json.update(arrays_);
    // Bytes that are no UTF-8 (a brand string, a path) are replaced rather than fatal.
    write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  const bool colours = colours_wanted(stdout);
  // Tables stand apart from what is before and after them.
  bool something_before = false, table_before = false;
  for (const auto& part : parts_) {
    if (const auto* table = std::get_if<Table>(&part)) {
      if (something_before) write("\n");
      write(options.form() == Form::kCsv ? table->to_csv() : table->to_text(colours));
      something_before = table_before = true;
    } else if (options.form() == Form::kText && !std::get<Fact>(part).line.empty()) {
      if (table_before) write("\n");
      write(std::get<Fact>(part).line + "\n");
      something_before = true;
      table_before = false;
    }
  }
}

}  // namespace tilewright::cli
