// SPDX-License-Identifier: MIT
#include "jit/flags.hpp"

#include "arch/arch_spec.hpp"

namespace tilewright {

std::vector<std::string> split_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r";
  std::vector<std::string> words;
  for (size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const size_t end = text.find_first_of(kBlanks, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

Result<std::vector<std::string>> all_flags(const CompileRequest& request) {
  Result<const ArchSpec*> arch = require_arch(request.target);
  if (!arch) return arch.status();
  std::vector<std::string> flags;
  const auto add = [&](std::string_view text) {
    for (std::string& word : split_words(text)) flags.push_back(std::move(word));
  };
  for (const std::string_view flag : (*arch)->flags) add(flag);
  for (const std::string& flag : request.flags) add(flag);
  return flags;
}

}  // namespace tilewright
