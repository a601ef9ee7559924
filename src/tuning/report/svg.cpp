// SPDX-License-Identifier: MIT
#include "tuning/report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilewright::report {

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  // Digits behind the point so that three are significant.
  const int magnitude = static_cast<int>(std::floor(std::log10(std::fabs(value)) + 1e-9));
  std::string text = fmt::format("{:.{}f}", value, std::clamp(2 - magnitude, 0, 6));
  const size_t point = std::min(text.find('.'), text.size());
  for (size_t at = point; at > 3 + (text[0] == '-' ? 1u : 0u); at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string rate(double gflops) {
  return gflops >= 1000 ? number(gflops / 1000) + " TFLOP/s" : number(gflops) + " GFLOP/s";
}

double Axis::place(double value) const {
  const double share =
      logarithmic ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : (value - low) / (high - low);
  return from + share * (to - from);
}

}  // namespace tilewright::report
