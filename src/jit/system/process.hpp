// SPDX-License-Identifier: MIT
// Runs another program without a shell, under a time limit, and keeps what it prints.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

inline constexpr size_t kMaxProcessOutput = 1 << 20;

struct ProcessOptions {
  std::vector<std::string> argv;  // argv[0] is a path
  std::string folder;             // where it runs; "" = here
  // Variables that replace the caller's ("NAME=value"), and names of those the program must not see.
  std::vector<std::string> set;
  std::vector<std::string> unset;
  double seconds = 60;  // then the program and its children are killed
  // Ends the program in the same way, at most 0.1 s after it becomes true; null = nobody will.
  const std::atomic<bool>* stop = nullptr;
  size_t most_output = kMaxProcessOutput;  // bytes that are kept; the rest is read and dropped
};

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal or by the time limit
  int signal = 0;
  bool timed_out = false;
  bool stopped = false;  // by ProcessOptions::stop
  std::string output;    // stdout and stderr in the order of writing, at most ProcessOptions::most_output bytes

  bool ok() const { return exit_code == 0; }
  std::string describe() const;  // "exit code 1", "signal 9 (Killed)", "no end within 60 s"
};

// The error says why the program could not be started; how it ended stands in the result.
Result<ProcessResult> run_process(const ProcessOptions& options);

}  // namespace tilewright
