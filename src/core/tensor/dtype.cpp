// SPDX-License-Identifier: MIT
// Elements of arrays whose type is known at run time, as doubles.
#include "tilewright/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tile/common/numeric.hpp"

namespace tilewright {

namespace {

// To float by rounding to odd: toward zero, then the last bit is set when anything was lost. A second rounding, to
// nearest, from the result to a format at least two bits narrower then gives what one rounding of `value` would give.
float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  const float truncated =
      std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(truncated) | 1u);
}

// To the nearest integer, ties to even; saturates; NaN becomes 0.
int64_t round_integer(double value, int64_t low, int64_t high) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(low)) return low;
  if (value >= static_cast<double>(high)) return high;
  const double below = std::floor(value);
  const double rest = value - below;
  const auto integer = static_cast<int64_t>(below);
  return rest > 0.5 || (rest == 0.5 && (integer & 1) != 0) ? integer + 1 : integer;
}

template <class T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Element `index` is a nibble of byte floor(index / 2): strides may be negative.
void write_nibble(void* data, int64_t index, unsigned nibble) {
  const int shift = static_cast<int>(index & 1) * 4;
  auto* const byte = static_cast<unsigned char*>(data) + (index >> 1);
  *byte = static_cast<unsigned char>((*byte & ~(15u << shift)) | (nibble & 15u) << shift);
}

}  // namespace

Result<DType> parse_dtype(std::string_view name) {
  std::string known;
  for (int i = 1; i < kDTypeCount; ++i) {
    if (name == kDTypeNames[i]) return static_cast<DType>(i);
    if (i > 1) known += ", ";
    known += kDTypeNames[i];
  }
  return Status(StatusCode::kInvalidArgument, "dtype '" + std::string(name) + "' is none of: " + known);
}

double load_element(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::kF32: return read<float>(data, index);
    case DType::kF16: return widen(read<f16>(data, index));
    case DType::kBf16: return widen(read<bf16>(data, index));
    case DType::kF8E4M3: return widen(read<e4m3>(data, index));
    case DType::kF8E5M2: return widen(read<e5m2>(data, index));
    case DType::kF8E4M3Fnuz: return widen(read<e4m3fnuz>(data, index));
    case DType::kF8E5M2Fnuz: return widen(read<e5m2fnuz>(data, index));
    case DType::kI8: return read<int8_t>(data, index);
    case DType::kI4: return widen(read<i4x2>(data, index >> 1), static_cast<int>(index & 1));
    case DType::kU4: return widen(read<u4x2>(data, index >> 1), static_cast<int>(index & 1));
    case DType::kF4E2M1: return widen(read<e2m1x2>(data, index >> 1), static_cast<int>(index & 1));
    case DType::kE8M0: return widen(read<e8m0>(data, index));
    case DType::kI32: return read<int32_t>(data, index);
    case DType::kNone: break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void store_element(DType dtype, void* data, int64_t index, double value) {
  switch (dtype) {
    case DType::kF32: return write(data, index, static_cast<float>(value));
    case DType::kF16: return write(data, index, narrow<f16>(round_to_odd(value)));
    case DType::kBf16: return write(data, index, narrow<bf16>(round_to_odd(value)));
    case DType::kF8E4M3: return write(data, index, narrow<e4m3>(round_to_odd(value)));
    case DType::kF8E5M2: return write(data, index, narrow<e5m2>(round_to_odd(value)));
    case DType::kF8E4M3Fnuz: return write(data, index, narrow<e4m3fnuz>(round_to_odd(value)));
    case DType::kF8E5M2Fnuz: return write(data, index, narrow<e5m2fnuz>(round_to_odd(value)));
    case DType::kI8: return write(data, index, static_cast<int8_t>(round_integer(value, -128, 127)));
    case DType::kI4: return write_nibble(data, index, static_cast<unsigned>(round_integer(value, -8, 7)));
    case DType::kU4: return write_nibble(data, index, static_cast<unsigned>(round_integer(value, 0, 15)));
    case DType::kF4E2M1: return write_nibble(data, index, e2m1x2::Format::narrow(round_to_odd(value)));
    case DType::kE8M0: return write(data, index, narrow<e8m0>(round_to_odd(value)));
    case DType::kI32: return write(data, index, static_cast<int32_t>(round_integer(value, INT32_MIN, INT32_MAX)));
    case DType::kNone: return;
  }
}

}  // namespace tilewright
