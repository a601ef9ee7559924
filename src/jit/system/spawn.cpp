// SPDX-License-Identifier: MIT
#include "jit/system/spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

extern char** environ;

namespace tilewright {
namespace {

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

  void connect(int descriptor, int to, int flags) {
    if (descriptor == SpawnOptions::kInherit) return;
    if (descriptor == SpawnOptions::kNullFile) {
      posix_spawn_file_actions_addopen(&actions, to, "/dev/null", flags, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, descriptor, to);
    }
  }
};

std::string_view variable_name(std::string_view assignment) { return assignment.substr(0, assignment.find('=')); }

std::vector<std::string> child_environment(const SpawnOptions& options) {
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

}  // namespace

Result<pid_t> spawn_process(const SpawnOptions& options) {
  SpawnSetup setup;
  setup.connect(options.input, STDIN_FILENO, O_RDONLY);
  setup.connect(options.output, STDOUT_FILENO, O_WRONLY);
  setup.connect(options.errors, STDERR_FILENO, O_WRONLY);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&setup.actions, options.folder.c_str());
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> argv = options.argv, variables = child_environment(options);
  pid_t child = -1;
  const int error = posix_spawnp(&child, argv.front().c_str(), &setup.actions, &setup.attributes, pointers(argv).data(),
                                 pointers(variables).data());
  if (error == 0) return child;
  return Status(StatusCode::kIoError, fmt::format("cannot run '{}': {}", argv.front(), std::strerror(error)));
}

int kill_process(pid_t pid) {
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace tilewright
