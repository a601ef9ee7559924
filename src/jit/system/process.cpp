// SPDX-License-Identifier: MIT
#include "jit/system/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "jit/system/files.hpp"
#include "jit/system/spawn.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

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
bool drain(int fd, const Limit& limit, size_t most, std::string& output) {
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
    output.append(buffer, std::min(static_cast<size_t>(got), most - output.size()));
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
  ProcessResult result;
  // A fast program could be done before anyone looks.
  if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) {
    result.stopped = true;
    return result;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status(StatusCode::kIoError, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const ScopedFd reader(ends[0]);
  ScopedFd writer(ends[1]);

  SpawnOptions spawn{options.argv, options.folder, options.set, options.unset};
  spawn.output = spawn.errors = writer.get();
  const Result<pid_t> child = spawn_process(spawn);
  if (!child) return child.status();
  writer.reset();

  const Limit limit{Clock::now() + std::chrono::microseconds(static_cast<int64_t>(options.seconds * 1e6)),
                    options.stop};
  int status = 0;
  if (!drain(reader.get(), limit, options.most_output, result.output) || !reap(*child, limit, status)) {
    result.stopped = limit.stopped();
    result.timed_out = !result.stopped;
    kill_process(*child);
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
