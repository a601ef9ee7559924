// SPDX-License-Identifier: MIT
// The supervisor's side of a worker: a child process that may crash, hang or eat memory. It is started when it is first
// needed, killed at a limit, and started again for the next request. One thread drives all workers.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "jit/system/files.hpp"
#include "jit/system/record.hpp"
#include "tuning/tuner.hpp"

namespace tilewright {

struct WorkerOptions {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", replacing the supervisor's
  double start_seconds = 60;             // for a start and for setting up a problem
};

struct WorkerLimits {
  double seconds = 20;
  int64_t bytes = int64_t{8} << 30;  // beyond what the worker had when the request began
};

struct WorkerReply {
  enum class End : uint8_t { kAnswered, kRefused, kCrashed, kTimedOut, kOutOfMemory, kNoWorker };
  End end = End::kNoWorker;
  Record record;       // kAnswered: the answer
  StatusCode code{};   // kRefused: the worker's status
  std::string reason;  // everything but kAnswered
  double seconds = 0;
};

class WorkerProcess {
 public:
  explicit WorkerProcess(WorkerOptions options) : options_(std::move(options)) {}
  ~WorkerProcess() { stop(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // What every request from now on is about; a fresh process is told before its first request.
  void set_problem(Record problem);
  // Starts the process and sets up the problem, if that has not happened. Setting up is not a candidate's fault.
  Status ensure(const std::function<void()>& tick);

  // Sends one request; the reply comes with take(). Calls ensure().
  void begin(const Record& request, const WorkerLimits& limits, const std::function<void()>& tick);
  bool busy() const { return busy_; }
  // Waits until at least one busy worker has a reply, calling `tick` now and then.
  static void wait(std::span<WorkerProcess* const> workers, const std::function<void()>& tick);
  bool ready() const { return ready_; }
  WorkerReply take();

  // begin(), wait(), take().
  WorkerReply call(const Record& request, const WorkerLimits& limits, const std::function<void()>& tick);
  // Kills the process; the next request starts another one.
  void stop();
  // Starts since construction: how often it was replaced, plus one.
  int starts() const { return starts_; }

 private:
  using Clock = std::chrono::steady_clock;
  Status start(const std::function<void()>& tick);
  void send(const Record& request, const WorkerLimits& limits);
  void step();  // reads what there is, looks at the limits
  void finish(WorkerReply::End end, std::string reason);
  void finish_ended();
  int64_t resident_bytes() const;
  std::string last_words() const;

  WorkerOptions options_;
  Record problem_;
  bool told_ = false;  // the running process knows problem_
  int pid_ = -1;
  int starts_ = 0;
  ScopedFd socket_, errors_;
  std::string received_;
  // The request under way.
  bool busy_ = false, ready_ = false;
  std::string verb_;
  WorkerLimits limits_;
  Clock::time_point begun_;
  int64_t bytes_at_begin_ = 0;
  WorkerReply reply_;
};

}  // namespace tilewright
