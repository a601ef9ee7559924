// SPDX-License-Identifier: MIT
// MessagePack, as far as the metadata of AMD code objects uses it: maps, lists, texts, integers, truth values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

struct MsgpackValue {
  enum class Kind : uint8_t { kNone, kBool, kInteger, kText, kList, kMap };
  Kind kind = Kind::kNone;
  int64_t integer = 0;              // of a truth value: 0 or 1
  std::string_view text;            // lies in the bytes that were read
  std::vector<MsgpackValue> items;  // of a map: key, value, key, value ...

  // The value of a map's key; null when there is none, or this is no map.
  const MsgpackValue* find(std::string_view key) const;
};

// kCorrupt for anything but one whole value, whatever the bytes are; what follows it is left.
Result<MsgpackValue> read_msgpack(std::span<const std::byte> bytes);

}  // namespace tilewright
