// SPDX-License-Identifier: MIT
// A problem's text whose fields stand in any order and may be left out: "b=4:v=1000:x=bf16". Texts with every field of a struct in
// its order are fields.hpp's.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/fields.hpp"

namespace tilewright {

// One "name=value", refused until a read() of its name takes it.
struct TextField {
  std::string_view name, value;
  Status status = Status(StatusCode::kInvalidArgument, "none of its fields");

  template <class T>
  void read(std::string_view field, T& to) {
    if (name == field) status = fields_detail::parse_value(value, to);
  }
  // As it stands, for what is understood later.
  void read(std::string_view field, std::string_view& to) {
    if (name == field) to = value, status = {};
  }
};

// Calls visit(field) for each, until one is refused; the refusal begins with it.
template <class Visit>
Status for_each_text_field(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equal = item.find('=');
    TextField field{item.substr(0, equal), equal == std::string_view::npos ? "" : item.substr(equal + 1)};
    visit(field);
    if (!field.status) return Status(field.status.code(), fmt::format("{}: {}", item, field.status.message()));
  }
  return {};
}

}  // namespace tilewright
