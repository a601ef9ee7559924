// SPDX-License-Identifier: MIT
// From the field list of an argument struct to its ArgStruct. A list is a function beside the struct's own name,
//
//   template <class Visit>
//   constexpr void arg_fields(const GemmArgs& s, Visit&& visit) { visit("m", s.m); ... }
//
// in host code: kernels do not need it, and what they include is part of their digest. TILEWRIGHT_CHECK_ARG_FIELDS holds it
// to the struct: a member that is forgotten fails the build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dispatch/call_description.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright {
namespace arg_struct_detail {

// Converts to a member of any type; never called.
template <size_t>
struct AnyMember {
  template <class T>
  constexpr operator T() const;  // NOLINT(google-explicit-constructor)
};

template <class Struct, size_t... I>
constexpr bool holds(std::index_sequence<I...>) {
  return requires { Struct{{AnyMember<I>{}}...}; };
}
// Whether the aggregate has so many members and no more.
template <class Struct, size_t kCount>
constexpr bool has_members() {
  return holds<Struct>(std::make_index_sequence<kCount>()) && !holds<Struct>(std::make_index_sequence<kCount + 1>());
}

constexpr size_t aligned(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

template <class Struct>
constexpr size_t listed() {
  size_t count = 0;
  arg_fields(Struct{}, [&count](const char*, const auto&) { ++count; });
  return count;
}
// The struct's size when its members are those of the list, one after another.
template <class Struct>
constexpr size_t size_from_list() {
  size_t end = 0;
  arg_fields(Struct{}, [&end](const char*, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    end = aligned(end, alignof(Field)) + sizeof(Field);
  });
  return aligned(end, alignof(Struct));
}

template <class Field>
ArgField::Kind kind_of() {
  if constexpr (std::is_same_v<Field, bool>) return ArgField::Kind::kBool;
  if constexpr (std::is_enum_v<Field>) return ArgField::Kind::kEnum;
  if constexpr (std::is_floating_point_v<Field>) return ArgField::Kind::kFloat;
  if constexpr (std::is_pointer_v<Field>) return ArgField::Kind::kPointer;
  if constexpr (std::is_same_v<Field, TensorMap>) return ArgField::Kind::kTensorMap;
  return ArgField::Kind::kInteger;
}

template <class Field>
void add(const Field& field, const std::byte* begin, const std::string& name, ArgStruct& out) {
  if constexpr (std::is_array_v<Field>) {
    for (size_t i = 0; i < std::extent_v<Field>; ++i) add(field[i], begin, name + "[" + std::to_string(i) + "]", out);
  } else if constexpr (requires { arg_fields(field, [](const char*, const auto&) {}); }) {
    arg_fields(field, [&](const char* inner, const auto& member) {
      add(member, begin, name.empty() ? inner : name + "." + inner, out);
    });
  } else {
    static_assert(std::is_scalar_v<Field> || std::is_same_v<Field, TensorMap>, "a struct without a field list");
    ArgField made;
    made.name = name;
    made.kind = kind_of<Field>();
    made.offset = static_cast<uint32_t>(reinterpret_cast<const std::byte*>(&field) - begin);
    made.bytes = sizeof(Field);
    if constexpr (std::is_enum_v<Field>) {
      made.is_signed = std::is_signed_v<std::underlying_type_t<Field>>;
    } else {
      made.is_signed = std::is_signed_v<Field>;
    }
    if constexpr (requires { enum_names(Field{}); }) {
      made.names = enum_names(Field{});
      made.name_count = enum_count(Field{});
    }
    out.fields.push_back(std::move(made));
  }
}

}  // namespace arg_struct_detail

#define TILEWRIGHT_CHECK_ARG_FIELDS(Struct)                                                       \
  static_assert(arg_struct_detail::has_members<Struct, arg_struct_detail::listed<Struct>()>(),    \
                #Struct ": the field list has more or fewer fields than the struct has members"); \
  static_assert(arg_struct_detail::size_from_list<Struct>() == sizeof(Struct),                    \
                #Struct ": the fields of the list, one after another, are not as large as the struct")

template <class Struct>
ArgStruct describe_struct(std::string_view name) {
  static const Struct kNothing{};
  ArgStruct out;
  out.name = name;
  out.bytes = sizeof(Struct);
  out.alignment = alignof(Struct);
  arg_struct_detail::add(kNothing, reinterpret_cast<const std::byte*>(&kNothing), "", out);
  return out;
}

}  // namespace tilewright
