// SPDX-License-Identifier: MIT
#include "output/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "core/environment.hpp"

namespace tilewright::cli {

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) != 0; }

bool colours_wanted(std::FILE* stream) {
  return is_terminal(stream) && !environment("NO_COLOR") && environment("TERM").value_or("dumb") != "dumb";
}

int terminal_width(std::FILE* stream) {
  constexpr int kUsual = 100;
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

std::string toned(const std::string& text, Tone tone, bool colours) {
  if (!colours || tone == Tone::kPlain) return text;
  const char* code = "";
  switch (tone) {
    case Tone::kGood: code = "32"; break;
    case Tone::kWarning: code = "33"; break;
    case Tone::kBad: code = "31"; break;
    case Tone::kFaint: code = "2"; break;
    case Tone::kStrong: code = "1"; break;
    case Tone::kPlain: break;
  }
  return "\x1b[" + std::string(code) + "m" + text + "\x1b[0m";
}

size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace tilewright::cli
