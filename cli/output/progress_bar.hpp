// SPDX-License-Identifier: MIT
// Progress on stderr: one line that is rewritten on a terminal, a plain line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace tilewright::cli {

struct Progress {
  double fraction = 0;       // of the whole
  std::string label;         // "attn_qkv, 16 tokens"
  std::string detail;        // "best 512 us, 131 GFLOP/s"
  double left_seconds = -1;  // below 0: not known
};

// The line for a terminal of `width` columns.
std::string render_progress(const Progress& progress, int width, bool colours);

class ProgressBar {
 public:
  explicit ProgressBar(bool quiet = false);
  ~ProgressBar() { finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(const Progress& progress);
  // Clears the line of a terminal; further text starts at its beginning.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  const bool quiet_, terminal_, colours_;
  bool drawn_ = false;
  std::string last_label_;
  Clock::time_point last_{};
};

// A fraction of the work and the time spent tell the time left; below 0 while nothing is done.
double seconds_left(double elapsed_seconds, double fraction);

}  // namespace tilewright::cli
