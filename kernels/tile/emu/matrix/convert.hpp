// SPDX-License-Identifier: MIT
// The conversions between f32 and the small floats of matrix operands, as instructions of one lane. Round to nearest, ties
// to even; denormals stay.
//
// What overflows: with MODE.FP16_OVFL = 0, as kernels start, FP8 becomes NaN and BF8 its infinity (FNUZ: NaN), so that a
// kernel clamps before it converts (as amd_hip_fp8.h does); FP16_OVFL = 1 saturates (Triton sets it: SetFP8ClampingAttr).
// FP4 and FP6 have neither infinity nor NaN and always saturate.
#pragma once

#include "tile/emu/matrix/elements.hpp"

namespace tilewright::emu {

template <MatrixTarget kTarget, bool kBf8>
struct TargetF8;
template <MatrixTarget kTarget>
struct TargetF8<kTarget, false> {
  using Format = e4m3::Format;
};
template <MatrixTarget kTarget>
struct TargetF8<kTarget, true> {
  using Format = e5m2::Format;
};
template <>
struct TargetF8<MatrixTarget::kGfx942, false> {
  using Format = e4m3fnuz::Format;
};
template <>
struct TargetF8<MatrixTarget::kGfx942, true> {
  using Format = e5m2fnuz::Format;
};

constexpr bool converts_f8(MatrixTarget target) {
  return target == MatrixTarget::kGfx942 || target == MatrixTarget::kGfx950 || target == MatrixTarget::kGfx1201;
}

// One code of 8 bits from f32.
template <class Format>
constexpr unsigned encode_f8(float value, bool saturate) {
  const unsigned code = Format::narrow(value);  // saturates
  if (saturate || value != value) return code;
  // Halfway past the largest value: a tie goes to the even code, which is the largest itself or the one that is not there.
  constexpr float kLargest = Format::widen(Format::kLargest);
  constexpr float kLimit = kLargest + (kLargest - Format::widen(Format::kLargest - 1)) / 2;
  const float magnitude = value < 0 ? -value : value;
  if (magnitude < kLimit || (magnitude == kLimit && Format::kLargest % 2 == 0)) return code;
  if constexpr (Format::kHasInfinity) return (code & Format::kSign) | Format::kTopExponent;
  return Format::narrow(__builtin_nanf("")) | (code & Format::kSign);
}

// cvt_pk_fp8_f32, cvt_pk_bf8_f32: two codes into the low or high half of a word, whose other half stays.
template <MatrixTarget kTarget, bool kBf8>
constexpr std::uint32_t cvt_pk_f8_f32(float a, float b, std::uint32_t old, bool high, bool saturate = false) {
  static_assert(converts_f8(kTarget), "the target does not have this conversion");
  using Format = typename TargetF8<kTarget, kBf8>::Format;
  const std::uint32_t pair = encode_f8<Format>(a, saturate) | encode_f8<Format>(b, saturate) << 8;
  return high ? (old & 0x0000FFFFu) | pair << 16 : (old & 0xFFFF0000u) | pair;
}

// cvt_f32_fp8, cvt_f32_bf8: byte `select` of a word. cvt_pk_f32_*: bytes 2 * high and 2 * high + 1.
template <MatrixTarget kTarget, bool kBf8>
constexpr float cvt_f32_f8(std::uint32_t word, int select) {
  static_assert(converts_f8(kTarget), "the target does not have this conversion");
  return kValues<typename TargetF8<kTarget, kBf8>::Format>.values[word >> 8 * select & 255];
}

// The scale of cvt_scalef32_*: only the exponent of the f32 counts.
constexpr float scale_of(float scale) {
  const std::uint32_t exponent = __builtin_bit_cast(std::uint32_t, scale) >> 23 & 255;
  return widen(e8m0{static_cast<unsigned char>(exponent)});
}

// cvt_scalef32_pk_fp4_f32: value / scale as two codes of 4 bits into byte `select` of a word.
constexpr std::uint32_t cvt_scalef32_pk_fp4_f32(std::uint32_t old, float a, float b, float scale, int select) {
  const float divisor = scale_of(scale);
  const std::uint32_t pair = e2m1x2::Format::narrow(a / divisor) | e2m1x2::Format::narrow(b / divisor) << 4;
  return (old & ~(255u << 8 * select)) | pair << 8 * select;
}

// cvt_scalef32_pk_f32_fp4: value * scale of the two codes in byte `select`; `index` says which.
constexpr float cvt_scalef32_f32_fp4(std::uint32_t word, float scale, int select, int index) {
  return kValues<e2m1x2::Format>.values[word >> (8 * select + 4 * index) & 15] * scale_of(scale);
}

// cvt_scalef32_pk_fp8_f32 and _bf8_: value / scale into the low or high half of a word, in OCP's encodings.
template <bool kBf8>
constexpr std::uint32_t cvt_scalef32_pk_f8_f32(std::uint32_t old, float a, float b, float scale, bool high,
                                               bool saturate = false) {
  const float divisor = scale_of(scale);
  return cvt_pk_f8_f32<MatrixTarget::kGfx950, kBf8>(a / divisor, b / divisor, old, high, saturate);
}

// cvt_scalef32_f32_fp8 and _bf8: value * scale of byte `select`.
template <bool kBf8>
constexpr float cvt_scalef32_f32_f8(std::uint32_t word, float scale, int select) {
  return cvt_f32_f8<MatrixTarget::kGfx950, kBf8>(word, select) * scale_of(scale);
}

}  // namespace tilewright::emu
