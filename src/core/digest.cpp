// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), cut to 128 bits.
#include "core/digest.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tilewright {

namespace {

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string Digest::short_hex() const { return hex().substr(0, bytes.size()); }

Result<Digest> Digest::parse(std::string_view hex) {
  Digest digest;
  bool valid = hex.size() == 2 * digest.bytes.size();
  for (size_t i = 0; valid && i < digest.bytes.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    valid = high >= 0 && low >= 0;
    digest.bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  if (!valid) {
    return Status(StatusCode::kInvalidArgument,
                  "digest '" + std::string(hex) + "' is not 32 lower-case hexadecimal digits");
  }
  return digest;
}

Digester::Digester()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

Digester& Digester::update(std::string_view text) {
  uint8_t prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<uint8_t>(static_cast<uint64_t>(text.size()) >> (8 * i));
  absorb(prefix, sizeof(prefix));
  absorb(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return *this;
}

Digester& Digester::update_bytes(std::span<const uint8_t> bytes) {
  absorb(bytes.data(), bytes.size());
  return *this;
}

void Digester::absorb(const uint8_t* data, size_t size) {
  while (size > 0) {
    const size_t filled = length_ % buffer_.size();
    const size_t taken = std::min(size, buffer_.size() - filled);
    std::memcpy(buffer_.data() + filled, data, taken);
    length_ += taken;
    data += taken;
    size -= taken;
    if (filled + taken == buffer_.size()) block(buffer_.data());
  }
}

Digest Digester::finish() {
  // Padding: a one bit, zeros, the length in bits as a big-endian 64-bit number.
  const uint64_t bits = length_ * 8;
  constexpr uint8_t kPadding[64] = {0x80};
  absorb(kPadding, 1 + (119 - length_ % 64) % 64);
  uint8_t tail[8];
  for (int i = 0; i < 8; ++i) tail[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  absorb(tail, sizeof(tail));

  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

void Digester::block(const uint8_t* data) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) {
    w[i] = static_cast<uint32_t>(data[4 * i]) << 24 | static_cast<uint32_t>(data[4 * i + 1]) << 16 |
           static_cast<uint32_t>(data[4 * i + 2]) << 8 | data[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }

  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> next = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < next.size(); ++i) state_[i] += next[i];
}

Digest digest_of(std::string_view text) {
  Digester digester;
  digester.update_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return digester.finish();
}

}  // namespace tilewright
