// SPDX-License-Identifier: MIT
// Element types as a run-time value. Freestanding: host code and kernels of every target share it.
#pragma once

namespace tilewright {

// The flavour of an 8-bit float is part of its type: OCP (e4m3, e5m2) and FNUZ never mix.
enum class DType : unsigned char {
  kNone = 0,  // an absent tensor
  kF32,
  kF16,
  kBf16,
  kF8E4M3,
  kF8E5M2,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI8,
  kI4,      // two a byte, even index in the low nibble
  kF4E2M1,  // two a byte, even index in the low nibble
  kE8M0,    // a power-of-two scale
  kI32,
  kU4,  // 0 to 15, two a byte, even index in the low nibble
};

inline constexpr int kDTypeCount = 14;

// Names in the order of the enumerators; used by keys, tables, JSON and messages.
inline constexpr const char* kDTypeNames[kDTypeCount] = {"none",     "f32", "f16", "bf16", "e4m3", "e5m2", "e4m3fnuz",
                                                         "e5m2fnuz", "i8",  "i4",  "e2m1", "e8m0", "i32",  "u4"};

inline constexpr int kDTypeBits[kDTypeCount] = {0, 32, 16, 16, 8, 8, 8, 8, 8, 4, 4, 8, 32, 4};

constexpr const char* const* enum_names(DType) { return kDTypeNames; }
constexpr int enum_count(DType) { return kDTypeCount; }

constexpr const char* dtype_name(DType dtype) { return kDTypeNames[static_cast<int>(dtype)]; }
// The logarithms of their fourth parts, two bits each: a GPU would read a table from memory.
inline constexpr unsigned kDTypeLogarithms = [] {
  unsigned all = 0;
  for (int i = 1; i < kDTypeCount; ++i) {
    for (int bits = kDTypeBits[i]; bits > 4; bits /= 2) all += 1u << (2 * i);
  }
  return all;
}();
constexpr int dtype_bits(DType dtype) {
  const int present = dtype == DType::kNone ? 0 : 4;
  return present << (kDTypeLogarithms >> (2 * static_cast<int>(dtype)) & 3);
}
static_assert([] {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dtype_bits(static_cast<DType>(i)) != kDTypeBits[i]) return false;
  }
  return true;
}());
constexpr bool is_ocp_f8(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }
constexpr bool is_f8(DType dtype) {
  return is_ocp_f8(dtype) || dtype == DType::kF8E4M3Fnuz || dtype == DType::kF8E5M2Fnuz;
}

}  // namespace tilewright
