// SPDX-License-Identifier: MIT
// What follows from a struct's one field list (kernels/tile/common/fields.hpp): its text form "name=value:name=value",
// the way back, its hash, and a C++ designated initialiser for generated sources.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "tile/common/fields.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

namespace fields_detail {

template <class T>
std::string print_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return enum_names(T{})[static_cast<int>(value)];
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else {
    return fmt::format("{}", value);
  }
}

// Parses the whole of `text` or explains; integers are range-checked against T.
Status parse_integer(std::string_view text, int64_t low, int64_t high, int64_t& out);
Status parse_float(std::string_view text, double& out);
Status parse_float(std::string_view text, float& out);  // its own: by way of double would round twice
Status parse_enum(std::string_view text, const char* const* names, int count, int& out);

template <class T>
Status parse_value(std::string_view text, T& value) {
  if constexpr (std::is_enum_v<T>) {
    int index = 0;
    if (Status s = parse_enum(text, enum_names(T{}), enum_count(T{}), index); !s) return s;
    value = static_cast<T>(index);
  } else if constexpr (std::is_same_v<T, bool>) {
    int64_t number = 0;
    if (Status s = parse_integer(text, 0, 1, number); !s) return s;
    value = number != 0;
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(sizeof(T) < 8 || std::is_signed_v<T>, "the range of uint64_t does not fit parse_integer");
    int64_t number = 0;
    if (Status s = parse_integer(text, static_cast<int64_t>(std::numeric_limits<T>::min()),
                                 static_cast<int64_t>(std::numeric_limits<T>::max()), number);
        !s)
      return s;
    value = static_cast<T>(number);
  } else {
    if (Status s = parse_float(text, value); !s) return s;
  }
  return {};
}

}  // namespace fields_detail

// "mma=amx_bf16:tile_m=32". Stable: the field list's order, no spaces; safe in a shell word and in a CSV cell.
template <class Struct>
std::string print_fields(const Struct& value) {
  std::string text;
  for_each_field(value, [&](const char* name, const auto& field) {
    if (!text.empty()) text += ':';
    text += name;
    text += '=';
    text += fields_detail::print_value(field);
  });
  return text;
}

// The exact inverse of print_fields: every field once, in order, nothing else.
template <class Struct>
Status parse_fields(std::string_view text, Struct& value) {
  Status status;
  for_each_field(value, [&](const char* name, auto& field) {
    if (!status.ok()) return;
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(item.size() == text.size() ? item.size() : item.size() + 1);
    const size_t equal = item.find('=');
    if (equal == std::string_view::npos || item.substr(0, equal) != name) {
      status = Status(StatusCode::kInvalidArgument, fmt::format("expected field '{}', got '{}'", name, item));
      return;
    }
    status = fields_detail::parse_value(item.substr(equal + 1), field);
    if (!status.ok()) {
      status = Status(StatusCode::kInvalidArgument, fmt::format("field '{}': {}", name, status.message()));
    }
  });
  if (status.ok() && !text.empty()) {
    status = Status(StatusCode::kInvalidArgument, fmt::format("unexpected text after the last field: '{}'", text));
  }
  return status;
}

// "{.mma=Mma::kAmxBf16, .tile_m=32}" with enums as casts, so that any enum works: the body of an instance's config.
template <class Struct>
std::string cpp_initializer(const Struct& value) {
  std::string text = "{";
  for_each_field(value, [&](const char* name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (text.size() > 1) text += ", ";
    if constexpr (std::is_enum_v<Field>) {
      text += fmt::format(".{}=decltype(tilewright::{}::{})({} /* {} */)", name, Struct::kTypeName, name,
                          static_cast<int>(field), fields_detail::print_value(field));
    } else if constexpr (std::is_same_v<Field, bool>) {
      text += fmt::format(".{}={}", name, field ? "true" : "false");
    } else {
      text += fmt::format(".{}={}", name, field);
    }
  });
  return text + "}";
}

}  // namespace tilewright
