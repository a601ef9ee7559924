// SPDX-License-Identifier: MIT
// The parts of field parsing that do not depend on the struct.
#include "core/fields.hpp"

#include <charconv>
#include <system_error>

namespace tilewright::fields_detail {

namespace {

Status not_a(const char* kind, std::string_view text) {
  return Status(StatusCode::kInvalidArgument, fmt::format("'{}' is not {}", text, kind));
}

template <class T>
Status parse_floating(std::string_view text, T& out) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error == std::errc::invalid_argument || stop != end) return not_a("a number", text);
  if (error != std::errc{}) return not_a("a number in range", text);
  out = value;
  return {};
}

}  // namespace

Status parse_integer(std::string_view text, int64_t low, int64_t high, int64_t& out) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error == std::errc::invalid_argument || stop != end) return not_a("an integer", text);
  if (error != std::errc{} || value < low || value > high) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} is outside [{}, {}]", text, low, high));
  }
  out = value;
  return {};
}

Status parse_float(std::string_view text, double& out) { return parse_floating(text, out); }
Status parse_float(std::string_view text, float& out) { return parse_floating(text, out); }

Status parse_enum(std::string_view text, const char* const* names, int count, int& out) {
  std::string known;
  for (int i = 0; i < count; ++i) {
    if (text == names[i]) {
      out = i;
      return {};
    }
    if (i > 0) known += ", ";
    known += names[i];
  }
  return Status(StatusCode::kInvalidArgument, fmt::format("'{}' is none of: {}", text, known));
}

}  // namespace tilewright::fields_detail
