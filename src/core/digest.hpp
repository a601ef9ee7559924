// SPDX-License-Identifier: MIT
// 128-bit content digest: the first half of SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tilewright/status.hpp"

namespace tilewright {

struct Digest {
  std::array<uint8_t, 16> bytes{};
  bool operator==(const Digest&) const = default;
  auto operator<=>(const Digest&) const = default;
  std::string hex() const;        // 32 lower-case digits
  std::string short_hex() const;  // 16: to tell apart what nobody forges
  static Result<Digest> parse(std::string_view hex);
};

// Incremental; every update is preceded by its length, so that ("ab","c") and ("a","bc") differ.
class Digester {
 public:
  Digester();
  Digester& update(std::string_view text);
  Digester& update_bytes(std::span<const uint8_t> bytes);  // raw, without a length prefix
  Digest finish();                                         // once; the digester is spent afterwards

 private:
  void absorb(const uint8_t* data, size_t size);
  void block(const uint8_t* data);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_{};
  uint64_t length_ = 0;
};

// Of the raw bytes, without a length prefix: the first 32 digits that `sha256sum` prints.
Digest digest_of(std::string_view text);

struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t value;
    __builtin_memcpy(&value, digest.bytes.data(), sizeof(value));
    return value;
  }
};

}  // namespace tilewright
