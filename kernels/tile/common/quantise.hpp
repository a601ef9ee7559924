// SPDX-License-Identifier: MIT
// From the largest magnitude of a group of values to their scale, bit for bit the same on host and device; docs/quantisation.md
// has the rules. Freestanding.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright {

// Which values share a scale, and where it comes from.
enum class Quantisation : unsigned char {
  kNone,     // no scales
  kTensor,   // one, given
  kRow,      // one for each row, found and written
  kGroup,    // one for each group of neighbours in a row, found and written
  kDynamic,  // one for the tensor, found and written
  kBlock,    // one for each block of kScaleBlock rows and columns, found and written
};
inline constexpr const char* kQuantisationNames[] = {"none", "tensor", "row", "group", "dynamic", "block"};
constexpr const char* const* enum_names(Quantisation) { return kQuantisationNames; }
constexpr int enum_count(Quantisation) { return 6; }
constexpr bool is_per_tensor(Quantisation q) { return q == Quantisation::kTensor || q == Quantisation::kDynamic; }

constexpr bool has_groups(Quantisation q) { return q == Quantisation::kGroup || q == Quantisation::kBlock; }
// Neighbours that share a scale of this type unless said otherwise: as MX, NVFP4 and DeepSeek-V3.
constexpr int usual_row_group(DType scale) { return scale == DType::kE8M0 ? 32 : scale == DType::kF8E4M3 ? 16 : 128; }
inline constexpr int kScaleBlock = 128;  // rows, and elements of each
// Neighbours that a Hadamard transform rotates, and what makes it keep lengths: 1 / sqrt(block).
constexpr bool is_hadamard_block(long long block) { return block == 16 || block == 32 || block == 64 || block == 128; }
constexpr float hadamard_factor(int block) {
  return block == 16 ? 0.25f : block == 32 ? 0x1.6A09E6p-3f : block == 64 ? 0.125f : 0x1.6A09E6p-4f;
}
constexpr long long scale_blocks(long long elements) { return (elements + kScaleBlock - 1) / kScaleBlock; }

// How a scale becomes a power of two (e8m0). `max` is the largest value of the type, 2^top the largest power of two in it.
enum class ScaleRounding : unsigned char {
  kDown,  // 2^(floor(log2 amax) - top): the OCP MX specification's; the largest values may saturate
  kUp,    // 2^ceil(log2(amax / max)): nothing saturates
  kCeil,  // 2^(ceil(log2 amax) - top)
  kEven,  // amax rounded to the type's mantissa, then as kDown
};
inline constexpr const char* kScaleRoundingNames[] = {"down", "up", "ceil", "even"};
constexpr const char* const* enum_names(ScaleRounding) { return kScaleRoundingNames; }
constexpr int enum_count(ScaleRounding) { return 4; }

constexpr bool is_quantised(DType dtype) { return is_f8(dtype) || dtype == DType::kI8 || dtype == DType::kF4E2M1; }

// The largest value of a type, and its mantissa's bits.
constexpr float quantised_limit(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3: return 448;
    case DType::kF8E4M3Fnuz: return 240;
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz: return 57344;
    case DType::kF4E2M1: return 6;
    default: return 127;  // i8
  }
}
constexpr int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz: return 3;
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz: return 2;
    default: return 1;  // e2m1
  }
}

// amax / max; 1 where that is 0, so that zeros stay zeros. NaN and infinity stay.
constexpr float scale_for(float amax, DType dtype) {
  const float scale = amax / quantised_limit(dtype);
  return scale == 0 ? 1 : scale;
}

// The code of a power of two: 2^(code - 127). NaN (255) where amax is NaN or infinite; 2^-127 where it is 0.
constexpr e8m0 power_scale_for(float amax, DType dtype, ScaleRounding rounding) {
  unsigned bits = __builtin_bit_cast(unsigned, amax);
  if (bits >= 0x7F800000u) return {255};
  if (bits == 0) return {0};
  int lowered = 0;
  if (bits < 0x00800000u) bits = __builtin_bit_cast(unsigned, amax * 0x1p64f), lowered = 64;  // subnormal: exact
  const unsigned limit = __builtin_bit_cast(unsigned, quantised_limit(dtype));
  const int top = static_cast<int>(limit >> 23) - 127;
  if (rounding == ScaleRounding::kEven) bits += 1u << (22 - mantissa_bits(dtype));
  const unsigned rest = bits & 0x7FFFFFu;
  int code = static_cast<int>(bits >> 23) - lowered - top;
  if (rounding == ScaleRounding::kUp) code += rest > (limit & 0x7FFFFFu);
  if (rounding == ScaleRounding::kCeil) code += rest != 0;
  return {static_cast<unsigned char>(code < 0 ? 0 : code > 254 ? 254 : code)};
}

// Scales in two levels, NVFP4's: of groups in e4m3, which are multiples of one f32 scale of the tensor.
enum class TensorScale : unsigned char {
  kNone,   // 1
  kGiven,  // read
  kFound,  // found and written
};
inline constexpr const char* kTensorScaleNames[] = {"none", "given", "found"};
constexpr const char* const* enum_names(TensorScale) { return kTensorScaleNames; }
constexpr int enum_count(TensorScale) { return 3; }

// The largest magnitude of all has the largest code and the largest scale; 1 where that is 0.
constexpr float tensor_scale_for(float amax, DType dtype) {
  const float scale = amax / (quantised_limit(DType::kF8E4M3) * quantised_limit(dtype));
  return scale == 0 ? 1 : scale;
}
// amax / max as a multiple of the tensor's scale, rounded, and not 0: the smallest one divides as well.
constexpr e4m3 multiple_scale_for(float amax, DType dtype, float of_tensor) {
  const float scale = amax / quantised_limit(dtype) / of_tensor;
  if (scale != scale) return {0x7F};
  const e4m3 code = narrow<e4m3>(scale);
  return (code.bits & 0x7F) == 0 ? e4m3{1} : code;
}
// What values are divided by; 1 where the product vanishes, so that zeros stay zeros.
constexpr float multiple_divisor(e4m3 code, float of_tensor) {
  const float scale = widen(code) * of_tensor;
  return scale == 0 ? 1 : scale;
}

// A scale that values are divided by. The quotient is IEEE's: a product with the rounded reciprocal and one correction, where
// neither can overflow or vanish, else a division.
struct Divisor {
  float scale, reciprocal;
  bool near_one;  // 2^-100 <= |scale| <= 2^100
};
constexpr Divisor divisor_of(float scale) {
  const float magnitude = scale < 0 ? -scale : scale;
  return {scale, 1 / scale, magnitude >= 0x1p-100f && magnitude <= 0x1p100f};
}

// Narrowing without a branch, for values that come many at a time: FloatFormat::narrow but for the sign of a NaN.
template <class Format>
constexpr unsigned narrow_many(float value) {
  constexpr unsigned kSmallest = static_cast<unsigned>(Format::kRebias + 1) << 23;  // of the normal ones
  // An f32 whose unit in the last place is the format's smallest number.
  constexpr unsigned kMagic = static_cast<unsigned>(Format::kRebias + 1 + Format::kShift) << 23;
  constexpr float kLargestValue = Format::widen(Format::kLargest);
  const unsigned all = __builtin_bit_cast(unsigned, value);
  const unsigned sign = all >> 31 << (Format::kBits - 1);
  unsigned bits = all & 0x7FFFFFFFu;
  const bool nan = bits > 0x7F800000u;
  constexpr unsigned kMost = __builtin_bit_cast(unsigned, kLargestValue);
  bits = bits > kMost ? kMost : bits;
  const unsigned rebased = bits - (static_cast<unsigned>(Format::kRebias) << 23);
  const unsigned normal =
      (rebased + ((1u << (Format::kShift - 1)) - 1) + (rebased >> Format::kShift & 1)) >> Format::kShift;
  const float moved = __builtin_bit_cast(float, bits) + __builtin_bit_cast(float, kMagic);
  const unsigned small = __builtin_bit_cast(unsigned, moved) - kMagic;
  if (nan) return Format::narrow(__builtin_bit_cast(float, 0x7FC00000u));
  const unsigned code = bits < kSmallest ? small : normal;
  return Format::is_nan(Format::kSign) && code == 0 ? 0 : sign | code;
}

}  // namespace tilewright
