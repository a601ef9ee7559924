// SPDX-License-Identifier: MIT
// What the library reads from files and users, as targets for fuzzing. A target takes any bytes; it must return, and what
// it promises (a bad row never changes a good one, what parses prints and parses to the same) it checks itself.
// tests/unit/fuzz runs each for a moment in every build; the preset `fuzz` makes a libFuzzer program of each.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();  // good inputs, to begin from
};

std::span<const Target> targets();

// A broken promise ends a libFuzzer run and fails a test.
inline void require(bool holds, const std::string& promise) {
  if (!holds) throw std::logic_error(promise);
}

// A file of this process, for targets that read files; removed when the process ends.
const std::string& scratch_folder();

void run_tuned_table(std::string_view input);
std::vector<std::string> tuned_table_seeds();
void run_texts(std::string_view input);
std::vector<std::string> text_seeds();
void run_journal(std::string_view input);
std::vector<std::string> journal_seeds();
void run_cache_entry(std::string_view input);
std::vector<std::string> cache_entry_seeds();
void run_code_pack(std::string_view input);
std::vector<std::string> code_pack_seeds();
void run_code_object(std::string_view input);
std::vector<std::string> code_object_seeds();

}  // namespace tilewright::fuzz
