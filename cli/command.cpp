// SPDX-License-Identifier: MIT
#include "command.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "ops/op_list.hpp"

namespace tilewright::cli {

Result<std::unique_ptr<ContextImpl>> open_context(int threads) {
  ContextOptions options;
  options.cpu_units = threads;
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
    if (const std::string_view word = text.substr(0, at); !word.empty()) words.emplace_back(word);
    if (at == std::string_view::npos) return words;
    text.remove_prefix(at + 1);
  }
}

}  // namespace tilewright::cli
