// SPDX-License-Identifier: MIT
// What the tests of matrix instructions share: every (row, target) as a function over raw registers, elements written to
// and read from bits of a lane, and values of codes by a formula of their own.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tile/emu/matrix/multiply.hpp"

namespace tilewright::emulated {

using emu::MatrixElement;
using emu::MatrixInstruction;
using emu::MatrixLayout;
using emu::MatrixModifiers;
using emu::MatrixTarget;

// Registers of a wave, [lane][register].
struct Registers {
  Registers(int lanes, int count) : count(count), words(static_cast<size_t>(lanes) * count) {}
  int count;
  std::vector<std::uint32_t> words;

  void put(int lane, int bit, int bits, std::uint64_t code) {
    for (int i = 0; i < bits; ++i) {
      std::uint32_t& word = words[static_cast<size_t>(lane) * count + (bit + i) / 32];
      const std::uint32_t mask = 1u << (bit + i) % 32;
      word = (code >> i & 1) != 0 ? word | mask : word & ~mask;
    }
  }
  std::uint64_t get(int lane, int bit, int bits) const {
    std::uint64_t code = 0;
    for (int i = 0; i < bits; ++i) {
      const std::uint32_t word = words[static_cast<size_t>(lane) * count + (bit + i) / 32];
      code |= static_cast<std::uint64_t>(word >> (bit + i) % 32 & 1) << i;
    }
    return code;
  }
};

struct Instance {
  const MatrixInstruction* row;
  MatrixTarget target;
  void (*run)(const Registers& a, const Registers& b, const Registers& c, Registers& d, const MatrixModifiers& m);
  std::string name() const { return fmt::format("{} on target {}", row->name, static_cast<int>(target)); }
};

template <int kCount>
struct LaneWords {
  std::uint32_t words[kCount];
};

template <int kRow, MatrixTarget kTarget>
void run_instance(const Registers& a, const Registers& b, const Registers& c, Registers& d, const MatrixModifiers& m) {
  constexpr const MatrixInstruction& row = emu::matrix_rows::kRows[kRow];
  static LaneWords<row.a_registers()> wave_a[row.lanes()];
  static LaneWords<row.b_registers()> wave_b[row.lanes()];
  static LaneWords<row.d_registers()> wave_c[row.lanes()], wave_d[row.lanes()];
  std::memcpy(wave_a, a.words.data(), sizeof wave_a);
  std::memcpy(wave_b, b.words.data(), sizeof wave_b);
  std::memcpy(wave_c, c.words.data(), sizeof wave_c);
  std::memset(wave_d, 0xEE, sizeof wave_d);
  emu::multiply<kRow, kTarget>(wave_a, wave_b, wave_c, wave_d, m);
  std::memcpy(d.words.data(), wave_d, sizeof wave_d);
}

template <MatrixLayout kLayout, int kRow, MatrixTarget kTarget>
void add_instance(std::vector<Instance>& all) {
  constexpr const MatrixInstruction& row = emu::matrix_rows::kRows[kRow];
  if constexpr (row.layout == kLayout && row.on(kTarget) && row.a != MatrixElement::kF8f6f4) {
    all.push_back({&row, kTarget, run_instance<kRow, kTarget>});
  }
}

// All rows of a layout, on each target that has them.
template <MatrixLayout kLayout>
std::vector<Instance> instances() {
  std::vector<Instance> all;
  [&]<int... kRows>(std::integer_sequence<int, kRows...>) {
    (add_instance<kLayout, kRows, MatrixTarget::kGfx90a>(all), ...);
    (add_instance<kLayout, kRows, MatrixTarget::kGfx942>(all), ...);
    (add_instance<kLayout, kRows, MatrixTarget::kGfx950>(all), ...);
    (add_instance<kLayout, kRows, MatrixTarget::kGfx1100>(all), ...);
    (add_instance<kLayout, kRows, MatrixTarget::kGfx1201>(all), ...);
  }(std::make_integer_sequence<int, emu::matrix_rows::kCount>());
  return all;
}

// A binary float by the definition of its format: (-1)^s * 1.m * 2^(e - bias), subnormals 0.m * 2^(1 - bias).
inline double float_value(std::uint64_t code, int exponent_bits, int mantissa_bits, int bias) {
  const auto mantissa = static_cast<double>(code & ((1ull << mantissa_bits) - 1));
  const int exponent = static_cast<int>(code >> mantissa_bits & ((1ull << exponent_bits) - 1));
  const bool negative = (code >> (mantissa_bits + exponent_bits) & 1) != 0;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return negative ? -magnitude : magnitude;
}
// The same where the top exponent means infinity and NaN.
inline double ieee_value(std::uint64_t code, int exponent_bits, int mantissa_bits, int bias) {
  const std::uint64_t top = (1ull << exponent_bits) - 1;
  if ((code >> mantissa_bits & top) != top) return float_value(code, exponent_bits, mantissa_bits, bias);
  if ((code & ((1ull << mantissa_bits) - 1)) != 0) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = (code >> (mantissa_bits + exponent_bits) & 1) != 0;
  return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

inline double element_value(MatrixElement e, MatrixTarget target, std::uint64_t code, bool is_signed = true) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool fnuz = target == MatrixTarget::kGfx942;
  // MI200 flushes subnormals of f16 and bf16 that go into MFMA.
  const auto of_16_bits = [target](double value, double smallest_normal) {
    const bool zero = target == MatrixTarget::kGfx90a && std::fabs(value) < smallest_normal;
    return zero ? std::copysign(0.0, value) : value;
  };
  switch (e) {
    case MatrixElement::kF64: {
      double value;
      std::memcpy(&value, &code, 8);
      return value;
    }
    case MatrixElement::kF32: return ieee_value(code, 8, 23, 127);
    case MatrixElement::kXf32: return ieee_value(code & 0xFFFFE000u, 8, 23, 127);
    case MatrixElement::kBf16: return of_16_bits(ieee_value(code, 8, 7, 127), 0x1p-126);
    case MatrixElement::kF16: return of_16_bits(ieee_value(code, 5, 10, 15), 0x1p-14);
    case MatrixElement::kF8:
      if (fnuz) return code == 0x80 ? nan : float_value(code, 4, 3, 8);
      return (code & 0x7F) == 0x7F ? nan : float_value(code, 4, 3, 7);
    case MatrixElement::kB8:
      if (fnuz) return code == 0x80 ? nan : float_value(code, 5, 2, 16);
      return ieee_value(code, 5, 2, 15);
    case MatrixElement::kI8: return static_cast<std::int8_t>(code);
    case MatrixElement::kIu8: return is_signed ? static_cast<std::int8_t>(code) : static_cast<double>(code);
    case MatrixElement::kIu4:
      return is_signed && code >= 8 ? static_cast<double>(code) - 16 : static_cast<double>(code);
    case MatrixElement::kI32: return static_cast<std::int32_t>(code);
    default: return nan;
  }
}

inline bool is_integer(MatrixElement e) {
  return e == MatrixElement::kI8 || e == MatrixElement::kIu8 || e == MatrixElement::kIu4 || e == MatrixElement::kI32;
}

// The code of 1.
inline std::uint64_t one_of(MatrixElement e, MatrixTarget target) {
  const bool fnuz = target == MatrixTarget::kGfx942;
  switch (e) {
    case MatrixElement::kF64: return 0x3FF0000000000000u;
    case MatrixElement::kF32:
    case MatrixElement::kXf32: return 0x3F800000u;
    case MatrixElement::kBf16: return 0x3F80u;
    case MatrixElement::kF16: return 0x3C00u;
    case MatrixElement::kF8: return fnuz ? 0x40 : 0x38;
    case MatrixElement::kB8: return fnuz ? 0x40 : 0x3C;
    default: return 1;
  }
}

// An infinity, or a NaN where the format has none or that is asked for.
inline std::uint64_t special_code(MatrixElement e, MatrixTarget target, bool infinity) {
  const bool fnuz = target == MatrixTarget::kGfx942;
  switch (e) {
    case MatrixElement::kF64: return infinity ? 0x7FF0000000000000u : 0x7FF8000000000000u;
    case MatrixElement::kF32:
    case MatrixElement::kXf32: return infinity ? 0x7F800000u : 0x7FC00000u;
    case MatrixElement::kBf16: return infinity ? 0x7F80u : 0x7FC0u;
    case MatrixElement::kF16: return infinity ? 0x7C00u : 0x7E00u;
    case MatrixElement::kF8: return fnuz ? 0x80 : 0x7F;
    case MatrixElement::kB8: return fnuz ? 0x80 : infinity ? 0x7C : 0x7E;
    default: return 0;
  }
}

// A random code whose value is at least 1/16 and below 4 in magnitude; of integers, any code.
inline std::uint64_t random_code(MatrixElement e, MatrixTarget target, std::mt19937_64& random) {
  const std::uint64_t mask = bits_of(e) == 64 ? ~0ull : (1ull << bits_of(e)) - 1;
  if (is_integer(e)) return random() & mask;
  for (;;) {
    std::uint64_t code = random() & mask;
    if (bits_of(e) == 64) code = (code & 0x800FFFFFFFFFFFFFu) | (0x3FB + random() % 5) << 52;
    if (bits_of(e) == 32) code = (code & 0x807FFFFFu) | (123 + random() % 6) << 23;
    if (e == MatrixElement::kBf16) code = (code & 0x807Fu) | (123 + random() % 6) << 7;
    const double magnitude = std::fabs(element_value(e, target, code));
    if (magnitude >= 0.0625 && magnitude < 4) return code;
  }
}

}  // namespace tilewright::emulated
