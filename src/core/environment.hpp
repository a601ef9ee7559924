// SPDX-License-Identifier: MIT
// Every environment variable that tilewright reads, in one table (docs/environment.md is checked against it).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tilewright {

struct EnvironmentVariable {
  const char* name;      // "TILEWRIGHT_LOG"
  const char* values;    // "off | error | warn | info | debug [:path]"
  const char* fallback;  // what holds when it is unset
  const char* meaning;
};

std::span<const EnvironmentVariable> environment_variables();

// Reads a variable that stands in the table; asking for another one is a programming error and aborts in debug builds.
std::optional<std::string> environment(std::string_view name);

// $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright; empty without a home directory.
std::string user_cache_dir();
// $TILEWRIGHT_DATA_DIR, else $XDG_DATA_HOME/tilewright, else ~/.local/share/tilewright; empty without a home directory.
std::string user_data_dir();

}  // namespace tilewright
