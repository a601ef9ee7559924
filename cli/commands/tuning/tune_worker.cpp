// SPDX-License-Identifier: MIT
// tilewright tune-worker: the child in which the tuner runs candidates. Started by `tilewright tune`, not by people.
#include <fcntl.h>
#include <unistd.h>

#include "command.hpp"
#include "tuning/tuner.hpp"

namespace tilewright::cli {
namespace {

struct WorkerOptions {
  int threads = 0;
  std::string device = "cpu";
};

Result<ExitCode> run_worker(const WorkerOptions& options) {
  // Answers own stdout; what a kernel or a library prints must not come between them.
  const int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (answers < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return Status(StatusCode::kIoError, "tune-worker: standard output cannot be moved");
  }
  Result<std::unique_ptr<ContextImpl>> context = open_context(options.threads, options.device);
  if (!context) return context.status();
  return tune_worker(**context, STDIN_FILENO, answers) == 0 ? ExitCode::kOk : ExitCode::kInternal;
}

}  // namespace

void add_tune_worker_command(CLI::App& program, Invocation& invocation) {
  add_command<WorkerOptions>(
      program, invocation,
      {"tune-worker", "Run candidates for `tilewright tune`", "  (started by tilewright tune)", /*hidden=*/true},
      [](Arguments& arguments, WorkerOptions& options) {
        add_threads_argument(arguments, options.threads);
        add_device_argument(arguments, options.device);
      },
      run_worker);
}

}  // namespace tilewright::cli
