// SPDX-License-Identifier: MIT
#include "arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/fields.hpp"
#include "device/cpu/thread_pool.hpp"

namespace tilewright::cli {
namespace {

// CLI11 puts the argument's name before a validator's words.
CLI::Validator integer_in(int64_t low, int64_t high) {
  return CLI::Validator(
      [low, high](std::string& value) {
        int64_t number = 0;
        if (fields_detail::parse_integer(value, low, high, number).ok()) return std::string();
        return fmt::format("'{}' is not allowed; allowed: an integer from {} to {}", value, low, high);
      },
      "INTEGER", "integer_in");
}

CLI::Option* grouped(CLI::Option* option, const std::string& group) {
  if (!group.empty()) option->group(group);
  return option;
}

}  // namespace

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  grouped(app_.add_flag(name, value, help), group_);
}

void Arguments::text(const std::string& name, std::string& value, const std::string& type, const std::string& help) {
  grouped(app_.add_option(name, value, help)->type_name(type), group_);
}

void Arguments::texts(const std::string& name, std::vector<std::string>& values, const std::string& type,
                      const std::string& help, bool commas) {
  CLI::Option* option = app_.add_option(name, values, help)->type_name(type)->allow_extra_args(false);
  if (commas) option->delimiter(',');
  grouped(option, group_);
}

void Arguments::choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
                       const std::string& help) {
  const CLI::Validator one_of(
      [allowed](std::string& word) {
        if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return std::string();
        return fmt::format("'{}' is not allowed; allowed: {}", word, fmt::join(allowed, ", "));
      },
      fmt::format("{}", fmt::join(allowed, "|")), "one_of");
  grouped(app_.add_option(name, value, help)->check(one_of)->type_name(""), group_);
}

void Arguments::integer(const std::string& name, int64_t& value, int64_t low, int64_t high, const std::string& help) {
  grouped(app_.add_option(name, value, help)->check(integer_in(low, high))->type_name(""), group_);
}

void Arguments::integer(const std::string& name, int& value, int64_t low, int64_t high, const std::string& help) {
  grouped(app_.add_option(name, value, help)->check(integer_in(low, high))->type_name(""), group_);
}

void Arguments::number_above(double low, const std::string& name, double& value, const std::string& help) {
  const CLI::Validator above(
      [low](std::string& word) {
        double number = 0;
        if (fields_detail::parse_float(word, number).ok() && number > low) return std::string();
        return fmt::format("'{}' is not allowed; allowed: a number above {}", word, low);
      },
      "NUMBER", "number_above");
  grouped(app_.add_option(name, value, help)->check(above)->type_name(""), group_);
}

void Arguments::positional(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help);
}

void Arguments::positionals(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  app_.add_option(name, values, help)->type_name("");
}

void Arguments::exclude(const std::string& one, const std::string& other) {
  app_.get_option(one)->excludes(app_.get_option(other));
}

void add_threads_argument(Arguments& arguments, int& threads) {
  arguments.integer("--threads", threads, 0, ThreadPool::kMaxThreads,
                    "CPU threads; 0 = every core the process may use");
}

void add_device_argument(Arguments& arguments, std::string& device) {
  arguments.text("--device", device, "DEVICE", "cpu, cuda, hip, one of several as cuda:<number>, emu:<target> (cpu)");
}

}  // namespace tilewright::cli
