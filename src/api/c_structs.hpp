// SPDX-License-Identifier: MIT
// Reading the C ABI's structs, whichever version of the header the caller was compiled with, and writing its texts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "api/c_status.hpp"
#include "tilewright/context.hpp"

namespace tilewright::c_abi {

// Copies what the caller filled in over `value`, which holds the defaults. kFirstSize is the struct's size in the first
// version of the ABI; bytes beyond our own struct come from a newer caller and must be zero.
template <size_t kFirstSize, class T>
Status read_struct(const char* name, const T* from, T& value) {
  static_assert(kFirstSize <= sizeof(T), "fields of a struct are never taken away");
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  if (size < kFirstSize) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("{}.struct_size is {}, allowed: at least {}; set it to sizeof({})", name, size, kFirstSize, name));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("{}.struct_size is {} and byte {} is not zero: the caller uses a field that version {} "
                                "of the library ({} bytes) does not have",
                                name, size, i, TILEWRIGHT_VERSION, sizeof(T)));
    }
  }
  std::memcpy(&value, from, std::min<size_t>(size, sizeof(T)));
  value.struct_size = sizeof(T);
  return {};
}

// Writes as much of `value` as the caller's struct has room for, and leaves its struct_size alone.
template <class T>
void write_struct(const T& value, T* to) {
  uint32_t size = 0;
  std::memcpy(&size, to, sizeof(size));
  std::memcpy(reinterpret_cast<unsigned char*>(to) + sizeof(size),
              reinterpret_cast<const unsigned char*>(&value) + sizeof(size),
              std::min<size_t>(size, sizeof(T)) - sizeof(size));
}

// snprintf's rule: `size` holds the capacity, then what the whole text takes with its NUL.
inline void write_text(std::string_view text, char* buffer, size_t& size) {
  if (buffer != nullptr && size > 0) {
    const size_t kept = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), kept);
    buffer[kept] = '\0';
  }
  size = text.size() + 1;
}

// The context that a handle stands for; NULL is the global one.
Context& context_of(tilewright_context* handle);

}  // namespace tilewright::c_abi
