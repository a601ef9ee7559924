// SPDX-License-Identifier: MIT
#include "device/hip/object/msgpack.hpp"

#include <limits>

namespace tilewright {
namespace {

using Kind = MsgpackValue::Kind;

// Metadata nests five deep.
constexpr int kMaxDepth = 16;

class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool read(MsgpackValue& value, int depth) {
    uint64_t tag = 0;
    if (depth > kMaxDepth || !number(1, tag)) return false;
    if (tag < 0x80) return integer(value, static_cast<int64_t>(tag));
    if (tag < 0x90) return items(value, Kind::kMap, tag & 0x0F, depth);
    if (tag < 0xA0) return items(value, Kind::kList, tag & 0x0F, depth);
    if (tag < 0xC0) return text(value, tag & 0x1F);
    if (tag >= 0xE0) return integer(value, static_cast<int8_t>(tag));
    uint64_t n = 0;
    switch (tag) {
      case 0xC0: return true;
      case 0xC2:
      case 0xC3:
        value.kind = Kind::kBool;
        value.integer = static_cast<int64_t>(tag & 1);
        return true;
      case 0xCC:
      case 0xCD:
      case 0xCE:
      case 0xCF:
        return number(1u << (tag - 0xCC), n) && n <= uint64_t{std::numeric_limits<int64_t>::max()} &&
               integer(value, static_cast<int64_t>(n));
      case 0xD0: return number(1, n) && integer(value, static_cast<int8_t>(n));
      case 0xD1: return number(2, n) && integer(value, static_cast<int16_t>(n));
      case 0xD2: return number(4, n) && integer(value, static_cast<int32_t>(n));
      case 0xD3: return number(8, n) && integer(value, static_cast<int64_t>(n));
      case 0xD9:
      case 0xDA:
      case 0xDB: return number(1u << (tag - 0xD9), n) && text(value, n);
      case 0xDC:
      case 0xDD: return number(2u << (tag - 0xDC), n) && items(value, Kind::kList, n, depth);
      case 0xDE:
      case 0xDF: return number(2u << (tag - 0xDE), n) && items(value, Kind::kMap, n, depth);
      default: return false;  // binary, extensions, floating point
    }
  }

 private:
  // Big-endian.
  bool number(unsigned bytes, uint64_t& value) {
    if (rest_.size() < bytes) return false;
    value = 0;
    for (unsigned i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<uint64_t>(rest_[i]);
    rest_ = rest_.subspan(bytes);
    return true;
  }

  static bool integer(MsgpackValue& value, int64_t number) {
    value.kind = Kind::kInteger;
    value.integer = number;
    return true;
  }

  bool text(MsgpackValue& value, uint64_t bytes) {
    if (rest_.size() < bytes) return false;
    value.kind = Kind::kText;
    value.text = {reinterpret_cast<const char*>(rest_.data()), bytes};
    rest_ = rest_.subspan(bytes);
    return true;
  }

  // Memory grows with what is there, not with what the count claims.
  bool items(MsgpackValue& value, Kind kind, uint64_t count, int depth) {
    value.kind = kind;
    if (kind == Kind::kMap) count *= 2;
    for (uint64_t i = 0; i < count; ++i) {
      if (!read(value.items.emplace_back(), depth + 1)) return false;
    }
    return true;
  }

  std::span<const std::byte> rest_;
};

}  // namespace

const MsgpackValue* MsgpackValue::find(std::string_view key) const {
  if (kind != Kind::kMap) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kText && items[i].text == key) return &items[i + 1];
  }
  return nullptr;
}

Result<MsgpackValue> read_msgpack(std::span<const std::byte> bytes) {
  MsgpackValue value;
  if (MsgpackReader(bytes).read(value, 0)) return value;
  return Status(StatusCode::kCorrupt, "not MessagePack, or cut short");
}

}  // namespace tilewright
