// SPDX-License-Identifier: MIT
#include "command.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "core/fields.hpp"
#include "ops/op_list.hpp"

namespace tilewright::cli {

Result<DeviceId> parse_device_argument(std::string_view text) {
  Result<DeviceId> id = parse_device(text);
  if (id) return id;
  return Status(id.status().code(), fmt::format("argument '--device': {}", id.status().message()));
}

Result<std::unique_ptr<ContextImpl>> open_context(int threads, const std::string& device) {
  Result<DeviceId> id = parse_device_argument(device);
  if (!id) return id.status();
  ContextOptions options;
  options.cpu_units = threads;
  Result<std::unique_ptr<ContextImpl>> context = ContextImpl::create(options, all_operators());
  if (!context) return context;
  if (Status s = (*context)->select_device(*id); !s) return s;
  return context;
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
