// SPDX-License-Identifier: MIT
#include "tuning/worker/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/log.hpp"
#include "jit/system/spawn.hpp"

namespace tilewright {
namespace {

constexpr int kPollMilliseconds = 20;

std::string describe_signal(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* text = sigdescr_np(signal);
  return fmt::format("SIG{} ({})", name ? name : std::to_string(signal), text ? text : "unknown signal");
}

}  // namespace

void WorkerProcess::set_problem(Record problem) {
  problem_ = std::move(problem);
  told_ = false;
}

Status WorkerProcess::start(const std::function<void()>& tick) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status(StatusCode::kIoError, fmt::format("tuner: no socket for a worker: {}", std::strerror(errno)));
  }
  ScopedFd own(ends[0]), child(ends[1]);
  // What the worker prints is only of interest when it ends badly; with a log it goes where the log goes.
  errors_ = ScopedFd(log_enabled(LogLevel::kError) ? -1 : memfd_create("worker-stderr", MFD_CLOEXEC));

  SpawnOptions spawn{options_.argv, "", options_.environment, {}};
  spawn.input = spawn.output = child.get();
  if (errors_) spawn.errors = errors_.get();
  const Result<pid_t> pid = spawn_process(spawn);
  if (!pid) {
    return Status(StatusCode::kIoError, fmt::format("tuner: no worker: {}", pid.status().message()));
  }
  pid_ = *pid;
  socket_ = std::move(own);
  received_.clear();
  told_ = false;
  ++starts_;

  send(Record("hello"), {options_.start_seconds, int64_t{1} << 40});
  WorkerProcess* self = this;
  wait({&self, 1}, tick);
  const WorkerReply reply = take();
  if (reply.end == WorkerReply::End::kAnswered && reply.record.get("version") == TILEWRIGHT_VERSION) return {};
  stop();
  if (reply.end == WorkerReply::End::kAnswered) {
    return Status(StatusCode::kIoError, fmt::format("tuner: the worker '{}' is of version '{}', this is {}",
                                                    options_.argv[0], reply.record.get("version"), TILEWRIGHT_VERSION));
  }
  std::string command;
  for (const std::string& word : options_.argv) command += (command.empty() ? "" : " ") + word;
  return Status(StatusCode::kIoError,
                fmt::format("tuner: '{}' does not answer as a worker: {} (TuneOptions::worker names the program)",
                            command, reply.reason));
}

Status WorkerProcess::ensure(const std::function<void()>& tick) {
  if (pid_ < 0) {
    if (Status s = start(tick); !s) return s;
  }
  if (told_ || problem_.verb().empty()) return {};
  send(problem_, {options_.start_seconds, int64_t{1} << 40});
  WorkerProcess* self = this;
  wait({&self, 1}, tick);
  const WorkerReply reply = take();
  if (reply.end != WorkerReply::End::kAnswered) {
    const StatusCode code = reply.end == WorkerReply::End::kRefused ? reply.code : StatusCode::kInternal;
    return Status(code, fmt::format("tuner: setting up {}: {}", problem_.get("problem"), reply.reason));
  }
  told_ = true;
  return {};
}

void WorkerProcess::begin(const Record& request, const WorkerLimits& limits, const std::function<void()>& tick) {
  if (Status s = ensure(tick); !s) {
    busy_ = true;
    begun_ = Clock::now();
    finish(WorkerReply::End::kNoWorker, s.message());
    return;
  }
  send(request, limits);
}

void WorkerProcess::send(const Record& request, const WorkerLimits& limits) {
  busy_ = true;
  ready_ = false;
  verb_ = request.verb();
  limits_ = limits;
  begun_ = Clock::now();
  bytes_at_begin_ = resident_bytes();
  std::string line = request.line() + '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return finish_ended();
    rest.remove_prefix(static_cast<size_t>(sent));
  }
}

void WorkerProcess::wait(std::span<WorkerProcess* const> workers, const std::function<void()>& tick) {
  while (true) {
    std::vector<pollfd> entries;
    for (WorkerProcess* worker : workers) {
      if (worker->busy_ && !worker->ready_) entries.push_back({worker->socket_.get(), POLLIN, 0});
      if (worker->ready_) return;
    }
    if (entries.empty()) return;
    ::poll(entries.data(), entries.size(), kPollMilliseconds);
    for (WorkerProcess* worker : workers) {
      if (worker->busy_ && !worker->ready_) worker->step();
    }
    if (tick) tick();
  }
}

WorkerReply WorkerProcess::take() {
  busy_ = ready_ = false;
  return std::exchange(reply_, {});
}

WorkerReply WorkerProcess::call(const Record& request, const WorkerLimits& limits, const std::function<void()>& tick) {
  begin(request, limits, tick);
  WorkerProcess* self = this;
  wait({&self, 1}, tick);
  return take();
}

void WorkerProcess::step() {
  char buffer[1 << 14];
  while (true) {
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(buffer, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return finish_ended();
    break;
  }
  if (const size_t end = received_.find('\n'); end != std::string::npos) {
    Result<Record> record = Record::parse(std::string_view(received_).substr(0, end));
    received_.erase(0, end + 1);
    if (!record) {
      stop();
      return finish(WorkerReply::End::kCrashed, "the worker's answer is damaged: " + record.status().message());
    }
    if (record->verb() == "error") {
      reply_.code = static_cast<StatusCode>(record->integer("code"));
      return finish(WorkerReply::End::kRefused, std::string(record->get("message")));
    }
    reply_.record = std::move(*record);
    return finish(WorkerReply::End::kAnswered, "");
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  if (seconds > limits_.seconds) {
    stop();
    return finish(WorkerReply::End::kTimedOut,
                  fmt::format("no end within the candidate's time limit ({:.3g} s left for '{}'); killed",
                              limits_.seconds, verb_));
  }
  if (const int64_t taken = resident_bytes() - bytes_at_begin_; taken > limits_.bytes) {
    stop();
    return finish(WorkerReply::End::kOutOfMemory,
                  fmt::format("took {} MiB of memory in '{}', the limit is {} MiB; killed", taken >> 20, verb_,
                              limits_.bytes >> 20));
  }
}

// The child closed its end: it exited or was killed.
void WorkerProcess::finish_ended() {
  int state = 0;
  // It may have closed its end without exiting; then it is killed like any other.
  pid_t ended = 0;
  for (int i = 0; i < 50 && (ended = ::waitpid(pid_, &state, WNOHANG)) == 0; ++i) ::usleep(2000);
  const std::string words = last_words();
  const std::string detail = words.empty() ? "" : ": " + words;
  if (ended != pid_) {
    stop();
    return finish(WorkerReply::End::kCrashed, fmt::format("the worker stopped answering in '{}'{}", verb_, detail));
  }
  ::kill(-pid_, SIGKILL);  // what it left running
  pid_ = -1;
  socket_.reset();
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL) {
    return finish(
        WorkerReply::End::kOutOfMemory,
        fmt::format("killed by SIGKILL in '{}': the system ran out of memory, or somebody killed it{}", verb_, detail));
  }
  finish(WorkerReply::End::kCrashed,
         WIFSIGNALED(state)
             ? fmt::format("crashed in '{}' with {}{}", verb_, describe_signal(WTERMSIG(state)), detail)
             : fmt::format("ended the worker in '{}' with exit code {}{}", verb_, WEXITSTATUS(state), detail));
}

void WorkerProcess::finish(WorkerReply::End end, std::string reason) {
  reply_.end = end;
  reply_.reason = std::move(reason);
  reply_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  ready_ = true;
}

void WorkerProcess::stop() {
  if (pid_ >= 0) kill_process(pid_);
  pid_ = -1;
  told_ = false;
  socket_.reset();
}

int64_t WorkerProcess::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// The last line that the worker printed.
std::string WorkerProcess::last_words() const {
  if (!errors_) return "";
  char buffer[2048];
  const off_t end = ::lseek(errors_.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, end - static_cast<off_t>(sizeof(buffer)));
  const ssize_t got = ::pread(errors_.get(), buffer, sizeof(buffer), from);
  std::string_view text(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const size_t line = text.rfind('\n');
  return std::string(line == std::string_view::npos ? text : text.substr(line + 1)).substr(0, 300);
}

}  // namespace tilewright
