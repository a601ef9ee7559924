// SPDX-License-Identifier: MIT
#include "jit/system/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "jit/system/files.hpp"

extern char** environ;

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

// posix_spawn's attributes and file actions, destroyed with the scope.
struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
};

std::string_view variable_name(std::string_view assignment) { return assignment.substr(0, assignment.find('=')); }

std::vector<std::string> child_environment(const ProcessOptions& options) {
  std::vector<std::string> variables = options.set;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = variable_name(*entry);
    const auto replaced = [&](const std::string& other) { return variable_name(other) == name; };
    if (std::any_of(options.set.begin(), options.set.end(), replaced)) continue;
    if (std::find(options.unset.begin(), options.unset.end(), name) != options.unset.end()) continue;
    variables.emplace_back(*entry);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1 << 30));
}

// How long a program may run.
struct Limit {
  Clock::time_point end;
  const std::atomic<bool>* stop;
  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  bool over() const { return stopped() || Clock::now() >= end; }
  int next_look_ms() const {
    return stop == nullptr ? milliseconds_until(end) : std::min(100, milliseconds_until(end));
  }
};

// Reads until every writer has closed the pipe. False when the limit is reached first.
bool drain(int fd, const Limit& limit, std::string& output) {
  char buffer[1 << 14];
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const int ready = poll(&entry, 1, limit.next_look_ms());
    if (ready <= 0) {
      if (limit.over() || (ready < 0 && errno != EINTR)) return false;
      continue;
    }
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got == 0) return true;
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return true;
    }
    output.append(buffer, std::min(static_cast<size_t>(got), kMaxProcessOutput - output.size()));
  }
}

// A program may close its output long before it ends. False when the limit is reached first.
bool reap(pid_t child, const Limit& limit, int& status) {
  for (int naps = 0;; ++naps) {
    const pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child) return true;
    if (got < 0 && errno == ECHILD) {
      status = -1;  // the host program ignores SIGCHLD or reaped it; the caller looks at what was made
      return true;
    }
    if (limit.over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(100 * (naps + 1), 5000)));
  }
}

}  // namespace

std::string ProcessResult::describe() const {
  if (stopped) return "stopped";
  if (timed_out) return "ended by the time limit";
  if (signal != 0) return fmt::format("signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

Result<ProcessResult> run_process(const ProcessOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status(StatusCode::kIoError, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const ScopedFd reader(ends[0]);
  ScopedFd writer(ends[1]);

  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&setup.actions, writer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&setup.actions, writer.get(), STDERR_FILENO);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&setup.actions, options.folder.c_str());
  // A process group of its own, so that the limit ends its children too; signals as a fresh program expects them.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> argv = options.argv;
  std::vector<std::string> variables = child_environment(options);
  pid_t child = 0;
  const int error = posix_spawn(&child, argv.front().c_str(), &setup.actions, &setup.attributes, pointers(argv).data(),
                                pointers(variables).data());
  if (error != 0) {
    return Status(StatusCode::kIoError, fmt::format("cannot run '{}': {}", argv.front(), std::strerror(error)));
  }
  writer.reset();

  ProcessResult result;
  const Limit limit{Clock::now() + std::chrono::microseconds(static_cast<int64_t>(options.seconds * 1e6)),
                    options.stop};
  int status = 0;
  if (!drain(reader.get(), limit, result.output) || !reap(child, limit, status)) {
    result.stopped = limit.stopped();
    result.timed_out = !result.stopped;
    kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return result;
  }
  if (status == -1) {
    result.exit_code = 0;
  } else if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  } else if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  }
  return result;
}

}  // namespace tilewright
