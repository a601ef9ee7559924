// SPDX-License-Identifier: MIT
// The log: parsed from TILEWRIGHT_LOG at the first question, written with one write(2) a line.
#include "core/log.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "core/environment.hpp"

namespace tilewright {

namespace {

constexpr const char* kLevelNames[] = {"off", "error", "warn", "info", "debug"};
constexpr int kUnread = -1;  // TILEWRIGHT_LOG has not been looked at yet

// Constant-initialised: logging works from static constructors and from destructors at exit.
constinit std::atomic<int> g_level{kUnread};
constinit std::atomic<int> g_sink{STDERR_FILENO};

// One call, so that lines of several threads and processes do not mix; a pipe that takes only part gets the rest.
void write_line(int sink, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(sink, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<size_t>(written));
  }
}

std::optional<int> parse_level(std::string_view name) {
  for (int i = 0; i < 5; ++i) {
    if (name == kLevelNames[i]) return i;
  }
  return std::nullopt;
}

int read_environment() {
  const auto text = environment("TILEWRIGHT_LOG");
  if (!text) return static_cast<int>(LogLevel::kOff);
  const size_t colon = text->find(':');
  const auto level = parse_level(std::string_view(*text).substr(0, colon));
  // The variable is set, so the user wants to hear of its mistakes.
  if (!level) {
    write_line(STDERR_FILENO, fmt::format("tilewright error log: TILEWRIGHT_LOG='{}' names no level; allowed: off, "
                                          "error, warn, info, debug, each with an optional :path\n",
                                          *text));
    return static_cast<int>(LogLevel::kOff);
  }
  if (colon != std::string::npos && *level != static_cast<int>(LogLevel::kOff)) {
    const std::string path = text->substr(colon + 1);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0) {
      g_sink.store(file, std::memory_order_release);
    } else {
      write_line(STDERR_FILENO, fmt::format("tilewright error log: TILEWRIGHT_LOG names '{}', which cannot be opened "
                                            "({}); logging to standard error\n",
                                            path, std::strerror(errno)));
    }
  }
  return *level;
}

int level_from_environment() {
  static const int level = read_environment();
  int expected = kUnread;
  g_level.compare_exchange_strong(expected, level, std::memory_order_relaxed);
  return g_level.load(std::memory_order_relaxed);
}

}  // namespace

bool log_enabled(LogLevel level) {
  int current = g_level.load(std::memory_order_relaxed);
  if (current == kUnread) [[unlikely]]
    current = level_from_environment();
  return level != LogLevel::kOff && static_cast<int>(level) <= current;
}

void set_log_level(LogLevel level) {
  level_from_environment();  // opens the file that TILEWRIGHT_LOG may name
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view component, std::string_view message) {
  if (!log_enabled(level)) return;
  std::string line = fmt::format("tilewright {} {}: ", kLevelNames[static_cast<int>(level)], component);
  line.reserve(line.size() + message.size() + 1);
  for (const char c : message) {
    if (c == '\n') {
      line += "\\n";  // one line an event
    } else {
      line += c;
    }
  }
  line += '\n';
  write_line(g_sink.load(std::memory_order_acquire), line);
}

bool log_first_time(std::string_view key) {
  // Never destroyed: threads may log while the process exits.
  static auto* const mutex = new std::mutex;
  static auto* const seen = new std::unordered_set<std::string>;
  // A background thread may be in here while the program forks.
  [[maybe_unused]] static const int kForkSafe =
      pthread_atfork([] { mutex->lock(); }, [] { mutex->unlock(); }, [] { mutex->unlock(); });
  const std::lock_guard lock(*mutex);
  return seen->emplace(key).second;
}

}  // namespace tilewright
