// SPDX-License-Identifier: MIT
// Starts another program without a shell: the one way in which the library and the program tilewright do.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

struct SpawnOptions {
  static constexpr int kInherit = -1, kNullFile = -2;

  std::vector<std::string> argv;  // argv[0]: a path, or a name that PATH finds
  std::string folder;             // where it runs; "" = here
  // Variables that replace the caller's ("NAME=value"), and names of those the program must not see.
  std::vector<std::string> set, unset;
  int input = kNullFile, output = kInherit, errors = kInherit;  // descriptors, or the constants above
};

// In a process group of its own, which kill(-pid, ...) ends with all children, and with signals as a fresh program expects
// them.
Result<pid_t> spawn_process(const SpawnOptions& options);

// Ends such a process with its children, and waits for it; its status, as waitpid gives it.
int kill_process(pid_t pid);

}  // namespace tilewright
