// SPDX-License-Identifier: MIT
#include "output/document.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.hpp"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& held) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(held)>, std::monostate>) {
          return Json(nullptr);
        } else {
          return Json(held);
        }
      },
      value);
}

Json json_of(const Table& table) {
  Json rows = Json::array();
  for (const std::vector<Cell>& row : table.rows()) {
    Json object = Json::object();
    for (size_t c = 0; c < row.size(); ++c) object[table.columns()[c].name] = json_of(row[c].value);
    rows.push_back(std::move(object));
  }
  return rows;
}

void write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

void add_output_arguments(Arguments& arguments, OutputOptions& options) {
  arguments.group("Output");
  arguments.flag("--json", options.json, "print JSON");
  arguments.flag("--csv", options.csv, "print CSV");
  arguments.exclude("--json", "--csv");
}

void Document::fact(std::string name, Value value, std::string line) {
  parts_.emplace_back(Fact{std::move(name), std::move(value), std::move(line)});
}

std::string Document::to_json() const {
  Json json = {{"command", command_}};
  for (const auto& part : parts_) {
    if (const auto* table = std::get_if<Table>(&part)) {
      json[table->name()] = json_of(*table);
    } else {
      json[std::get<Fact>(part).name] = json_of(std::get<Fact>(part).value);
    }
  }
  // Bytes that are no UTF-8 (a brand string, a path) are replaced rather than fatal.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void Document::print(const OutputOptions& options) const {
  if (options.form() == Form::kJson) {
    write(to_json());
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
