// SPDX-License-Identifier: MIT
// TILEWRIGHT_LOG=off|error|warn|info|debug[:path]. Off by default; stderr unless a path is named. One line an event.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tilewright {

enum class LogLevel : int { kOff = 0, kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

bool log_enabled(LogLevel level);  // one relaxed load
void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view component, std::string_view message);

template <class... Args>
void log(LogLevel level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, component, fmt::format(format, std::forward<Args>(args)...));
}

// True the first time that `key` is seen in this process: for warnings that should stand once.
bool log_first_time(std::string_view key);

}  // namespace tilewright
