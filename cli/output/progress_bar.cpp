// SPDX-License-Identifier: MIT
#include "output/progress_bar.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output/numbers.hpp"
#include "output/terminal.hpp"

namespace tilewright::cli {
namespace {

constexpr int kBarColumns = 24;

std::string left_text(const Progress& progress) {
  return progress.left_seconds < 0 ? "" : print_seconds(progress.left_seconds) + " left";
}

// Whole UTF-8 characters of `text`, at most `columns`.
std::string cut(const std::string& text, size_t columns) {
  if (display_width(text) <= columns) return text;
  std::string kept;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (starts && display_width(kept) == columns) break;
    kept += c;
  }
  return kept;
}

}  // namespace

std::string render_progress(const Progress& progress, int width, bool colours) {
  const double fraction = std::clamp(progress.fraction, 0.0, 1.0);
  const int full = static_cast<int>(fraction * kBarColumns);
  const std::string bar = std::string(full, '#') + std::string(kBarColumns - full, '.');
  std::string text = fmt::format(" {:3.0f} %  {}", 100 * fraction, progress.label);
  if (!progress.detail.empty()) text += "  " + progress.detail;
  if (const std::string left = left_text(progress); !left.empty()) text += "  " + left;
  // One column stays free: a full line would wrap.
  const size_t room = static_cast<size_t>(std::max(0, width - 1 - kBarColumns - 2));
  return "[" + toned(bar, Tone::kGood, colours) + "]" + cut(text, room);
}

ProgressBar::ProgressBar(bool quiet)
    : quiet_(quiet), terminal_(is_terminal(stderr)), colours_(colours_wanted(stderr)) {}

void ProgressBar::update(const Progress& progress) {
  if (quiet_) return;
  const auto now = Clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  const bool fresh = progress.label != last_label_;
  if (terminal_) {
    constexpr double kRedrawSeconds = 0.1;
    if (!fresh && drawn_ && since < kRedrawSeconds) return;
    fmt::print(stderr, "\r{}\x1b[K", render_progress(progress, terminal_width(stderr), colours_));
  } else {
    // A log gets one line a label, and a sign of life.
    constexpr double kLineSeconds = 30;
    if (!fresh && since < kLineSeconds) return;
    std::string line = fmt::format("{:3.0f} %  {}", 100 * std::clamp(progress.fraction, 0.0, 1.0), progress.label);
    if (!progress.detail.empty()) line += "  " + progress.detail;
    if (const std::string left = left_text(progress); !left.empty()) line += "  " + left;
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
  drawn_ = true;
  last_ = now;
  last_label_ = progress.label;
}

void ProgressBar::finish() {
  if (terminal_ && drawn_) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }
  drawn_ = false;
  last_label_.clear();
}

double seconds_left(double elapsed_seconds, double fraction) {
  if (fraction <= 0) return -1;
  return std::max(0.0, elapsed_seconds * (1 - fraction) / fraction);
}

}  // namespace tilewright::cli
