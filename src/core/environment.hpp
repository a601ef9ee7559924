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

// tilewright's own variables.
std::span<const EnvironmentVariable> environment_variables();
// Variables of the system and of other tools that tilewright reads too.
std::span<const EnvironmentVariable> borrowed_environment_variables();

// Reads a variable that stands in one of the tables; asking for another one is a programming error and aborts in debug
// builds. An empty variable counts as unset.
std::optional<std::string> environment(std::string_view name);

// $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright; empty without a home directory.
std::string user_cache_dir();
// $TILEWRIGHT_DATA_DIR, else $XDG_DATA_HOME/tilewright, else ~/.local/share/tilewright; empty without a home directory.
std::string user_data_dir();

}  // namespace tilewright
