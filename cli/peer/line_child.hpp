// SPDX-License-Identifier: MIT
// A child program that answers one line for each line it is sent. It ends when its input closes, which happens at the
// latest when this process ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "jit/system/files.hpp"
#include "tilewright/status.hpp"

namespace tilewright::cli {

class LineChild {
 public:
  LineChild() = default;
  ~LineChild() { stop(); }
  LineChild(const LineChild&) = delete;
  LineChild& operator=(const LineChild&) = delete;

  // argv[0] is looked up on PATH. What the child writes to its stderr is dropped.
  Status start(const std::vector<std::string>& argv);
  bool running() const { return pid_ > 0; }
  // Sends a line (without its newline) and waits for the answer. After an error the child is gone.
  Result<std::string> ask(const std::string& line, double seconds);
  void stop();

 private:
  Result<std::string> read_line(double seconds);

  pid_t pid_ = -1;
  ScopedFd to_child_, from_child_;
  std::string buffer_;
};

}  // namespace tilewright::cli
