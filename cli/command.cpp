// SPDX-License-Identifier: MIT
#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/fields.hpp"
#include "device/cpu/thread_pool.hpp"
#include "ops/op_list.hpp"

namespace tilewright::cli {

CLI::Validator one_of(std::vector<std::string> allowed) {
  const std::string names = join(allowed, "|");
  return CLI::Validator(
      [allowed](std::string& value) {
        if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return std::string();
        return fmt::format("'{}' is not allowed; allowed: {}", value, join(allowed));
      },
      names, "one_of");
}

CLI::Validator integer_in(int64_t low, int64_t high) {
  return CLI::Validator(
      [low, high](std::string& value) {
        int64_t number = 0;
        if (fields_detail::parse_integer(value, low, high, number).ok()) return std::string();
        return fmt::format("'{}' is not allowed; allowed: an integer from {} to {}", value, low, high);
      },
      fmt::format("{}..{}", low, high), "integer_in");
}

CLI::Validator number_above(double low) {
  return CLI::Validator(
      [low](std::string& value) {
        double number = 0;
        if (fields_detail::parse_float(value, number).ok() && number > low) return std::string();
        return fmt::format("'{}' is not allowed; allowed: a number above {}", value, low);
      },
      fmt::format(">{}", low), "number_above");
}

void add_threads_option(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "CPU threads; 0 = every core the process may use")
      ->check(integer_in(0, ThreadPool::kMaxThreads));
}

Result<std::unique_ptr<ContextImpl>> open_context(int threads, const std::string& jit) {
  ContextOptions options;
  options.cpu_units = threads;
  options.jit = jit;
  return ContextImpl::create(options, all_operators());
}

void note(std::string_view line) { fmt::print(stderr, "tilewright: {}\n", line); }

std::string join(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> split_words(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (true) {
    const size_t at = text.find(separator);
    if (at > 0 && !text.empty()) words.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return words;
    text.remove_prefix(at + 1);
  }
}

}  // namespace tilewright::cli
