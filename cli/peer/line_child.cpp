// SPDX-License-Identifier: MIT
#include "peer/line_child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "jit/system/spawn.hpp"

namespace tilewright::cli {
namespace {

Status system_error(const std::string& what, int error) {
  return Status(StatusCode::kIoError, fmt::format("{}: {}", what, std::strerror(error)));
}

}  // namespace

Status LineChild::start(const std::vector<std::string>& argv) {
  stop();
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return system_error("pipe", errno);
  ScopedFd in_read(in[0]), in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return system_error("pipe", errno);
  ScopedFd out_read(out[0]), out_write(out[1]);

  SpawnOptions spawn{argv, "", {}, {}};
  spawn.input = in_read.get(), spawn.output = out_write.get(), spawn.errors = SpawnOptions::kNullFile;
  const Result<pid_t> pid = spawn_process(spawn);
  if (!pid) return pid.status();
  pid_ = *pid;
  to_child_ = std::move(in_write);
  from_child_ = std::move(out_read);
  return {};
}

Result<std::string> LineChild::read_line(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    if (const size_t at = buffer_.find('\n'); at != std::string::npos) {
      std::string line = buffer_.substr(0, at);
      buffer_.erase(0, at + 1);
      return line;
    }
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) return Status(StatusCode::kTimeout, fmt::format("no answer within {:.0f} s", seconds));
    pollfd waiting{from_child_.get(), POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left * 1000) + 1);
    if (ready < 0 && errno != EINTR) return system_error("poll", errno);
    if (ready <= 0) continue;
    char chunk[4096];
    const ssize_t got = read(from_child_.get(), chunk, sizeof(chunk));
    if (got < 0 && errno != EINTR) return system_error("read", errno);
    if (got == 0) return Status(StatusCode::kIoError, "the child ended");
    if (got > 0) buffer_.append(chunk, static_cast<size_t>(got));
  }
}

Result<std::string> LineChild::ask(const std::string& line, double seconds) {
  if (!running()) return Status(StatusCode::kIoError, "the child is not running");
  const std::string text = line + "\n";
  Status status;
  for (size_t sent = 0; sent < text.size() && status.ok();) {
    const ssize_t wrote = write(to_child_.get(), text.data() + sent, text.size() - sent);
    if (wrote > 0) sent += static_cast<size_t>(wrote);
    if (wrote < 0 && errno != EINTR) status = system_error("write", errno);
  }
  Result<std::string> answer = status.ok() ? read_line(seconds) : Result<std::string>(status);
  if (!answer) stop();
  return answer;
}

void LineChild::stop() {
  to_child_.reset();
  from_child_.reset();
  buffer_.clear();
  if (pid_ <= 0) return;
  // Its input is closed: it ends by itself, unless it hangs.
  kill_process(pid_);
  pid_ = -1;
}

}  // namespace tilewright::cli
