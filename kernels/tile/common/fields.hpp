// SPDX-License-Identifier: MIT
// One field list a struct. A struct with fields declares, once:
//
//   template <class Self, class Visit>
//   static constexpr void fields(Self& self, Visit&& visit) { visit("tile_m", self.tile_m); ... }
//
// and an enum declares enum_names(E) and enum_count(E). Printing, parsing, order, hash, CSV columns, JSON and the
// generated source of an instance all come from that list (src/core/fields.hpp). Freestanding.
#pragma once

namespace tilewright {

template <class Struct, class Visit>
constexpr void for_each_field(Struct& value, Visit&& visit) {
  Struct::fields(value, visit);
}

template <class Struct, class Visit>
constexpr void for_each_field(const Struct& value, Visit&& visit) {
  Struct::fields(value, visit);
}

}  // namespace tilewright
