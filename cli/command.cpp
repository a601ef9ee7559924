// SPDX-License-Identifier: MIT
#include "command.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "core/fields.hpp"
#include "ops/op_list.hpp"

namespace tilewright::cli {

Result<DeviceId> parse_device(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  DeviceId id;
  if (text == to_string(id)) return id;
  int64_t index = 0;
  const bool cuda = text.starts_with(kCuda);
  const std::string_view rest = cuda ? text.substr(kCuda.size()) : "";
  if (cuda && (rest.empty() || (rest[0] == ':' && fields_detail::parse_integer(rest.substr(1), 0, 63, index).ok()))) {
    return DeviceId{DeviceKind::kCuda, static_cast<int32_t>(index)};
  }
  return Status(StatusCode::kInvalidArgument,
                fmt::format("argument '--device' is '{}', allowed: cpu, cuda, cuda:<number>", text));
}

Result<std::unique_ptr<ContextImpl>> open_context(int threads, const std::string& device) {
  Result<DeviceId> id = parse_device(device);
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
