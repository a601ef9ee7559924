// SPDX-License-Identifier: MIT
// Rows of codes as values, exactly, and the scales that they go with: what numeric.hpp's widen() gives, 16 at a time.
#pragma once

#include "tile/cpu/dequant.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// 16 neighbours of i8, a float of 8 bits, or e2m1 from a whole byte on.
template <DType kType>
TILEWRIGHT_INLINE F32x16 widen_codes(const void* p) {
  if constexpr (kType == DType::kI8 || is_ocp_f8(kType)) {
    return widen_bytes<kType>(p);
  } else if constexpr (kType == DType::kF4E2M1) {
    // An integer below 2^23 is the mantissa of its sum with that.
    const I32x16 codes = as_int(widen_nibbles<DType::kU4>(p) + F32x16::splat(0x1p23f)) & I32x16::splat(15);
    const I32x16 magnitude = codes & I32x16::splat(7);
    // 0 and 1 are halves. As subnormal floats their product would be slow on CPUs.
    const F32x16 whole = to_float(magnitude), normal = as_float(shift_left<22>(magnitude) + I32x16::splat(126 << 23));
    const F32x16 value = select_less(whole, F32x16::splat(2), whole * F32x16::splat(0.5f), normal);
    return as_float(as_int(value) | shift_left<28>(codes & I32x16::splat(8)));
  } else {
    const I32x16 bytes = I32x16::widen_i8(p), magnitude = bytes & I32x16::splat(0x7F);
    const F32x16 value = kType == DType::kF8E4M3Fnuz ? widen_magnitude<e4m3fnuz::Format>(magnitude)
                                                     : widen_magnitude<e5m2fnuz::Format>(magnitude);
    const I32x16 sign = bytes & I32x16::splat(static_cast<int>(0x80000000u));
    // What would be minus zero is NaN.
    return select_less(to_float(bytes), F32x16::splat(-127.5f), as_float(I32x16::splat(0x7FC00000)),
                       as_float(as_int(value) | sign));
  }
}
// The first `count` of them; nothing past their last byte is touched.
template <DType kType>
inline F32x16 widen_codes_tail(const void* p, int count) {
  alignas(16) unsigned char buffer[16] = {};
  __builtin_memcpy(buffer, p, static_cast<unsigned>((count * dtype_bits(kType) + 7) / 8));
  return widen_codes<kType>(buffer);
}
// Typed at run time; through memory, as load_any().
inline __attribute__((noinline)) void widen_any_codes(const char* from, DType dtype, int count, float* to) {
  switch (dtype) {
    case DType::kF8E4M3: return widen_codes_tail<DType::kF8E4M3>(from, count).store(to);
    case DType::kF8E5M2: return widen_codes_tail<DType::kF8E5M2>(from, count).store(to);
    case DType::kF8E4M3Fnuz: return widen_codes_tail<DType::kF8E4M3Fnuz>(from, count).store(to);
    case DType::kF8E5M2Fnuz: return widen_codes_tail<DType::kF8E5M2Fnuz>(from, count).store(to);
    case DType::kF4E2M1: return widen_codes_tail<DType::kF4E2M1>(from, count).store(to);
    default: return widen_codes_tail<DType::kI8>(from, count).store(to);
  }
}

// A row of x as codes; kNone: x tells its type.
template <DType kType>
struct RowCodes {
  const char* row;
  DType dtype;
  long long next;

  TILEWRIGHT_INLINE RowCodes(const RowArgs& args, const RowIndex& at)
      : row(row_start(args.x, at)), dtype(args.x.dtype), next(fetch_distance(args.x)) {}

  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 load(RowPiece<kWhole> at) const {
    if constexpr (kType == DType::kNone) {
      float values[kVec];
      widen_any_codes(row + at.n * dtype_bits(dtype) / 8, dtype, at.count, values);
      return F32x16::load(values);
    } else {
      const char* const from = row + at.n * dtype_bits(kType) / 8;
      fetch(from + next);
      if constexpr (kWhole) return widen_codes<kType>(from);
      return widen_codes_tail<kType>(from, at.count);
    }
  }
};

// The scales of a row that are read; kNone: the arguments tell which. Those of a byte are widened 16 at a time.
template <Quantisation kQuant>
struct GivenScales {
  const QuantisedScales& scales;
  long long first;
  int shift;  // group = 2^shift
  bool grouped, wide;
  long long groups, kept_from = -1;
  float one = 0;
  alignas(64) float kept[kVec];

  TILEWRIGHT_INLINE GivenScales(const RowArgs& args, const RowIndex& at)
      : scales(args.scale),
        first(scale_offset(args.scale, args.scale.quant, at)),
        shift(args.scale.group > 0 ? __builtin_ctz(static_cast<unsigned>(args.scale.group)) : 0),
        grouped(has_groups(kQuant == Quantisation::kNone ? args.scale.quant : kQuant)),
        wide(args.scale.dtype == DType::kF32),
        groups((args.n + args.scale.group - 1) >> shift) {
    if (!grouped) one = load(first);
  }
  TILEWRIGHT_INLINE float load(long long at) const {
    if (scales.dtype == DType::kE8M0) return widen(static_cast<const e8m0*>(scales.data)[at]);
    if (scales.dtype == DType::kF8E4M3) return widen(static_cast<const e4m3*>(scales.data)[at]) * of_tensor(scales);
    return read_as<float>(static_cast<const float*>(scales.data) + at);
  }
  // Of the elements from n on, up to the next group.
  TILEWRIGHT_INLINE float at(long long n) {
    if (!grouped) return one;
    const long long group = n >> shift, in = group % kVec;
    if (wide) return load(first + group * scales.stride_group);
    if (group - in != kept_from) keep(group - in);
    return kept[in];
  }

 private:
  __attribute__((noinline)) void keep(long long from) {
    kept_from = from;
    alignas(16) unsigned char bytes[kVec] = {};
    const auto* const codes = static_cast<const unsigned char*>(scales.data) + first + from * scales.stride_group;
    const int there = groups - from < kVec ? static_cast<int>(groups - from) : kVec;
    for (int i = 0; i < there; ++i) bytes[i] = codes[i * scales.stride_group];
    if (scales.dtype == DType::kE8M0) {
      for (int i = 0; i < kVec; ++i) kept[i] = widen(e8m0{bytes[i]});
    } else {
      (widen_codes<DType::kF8E4M3>(bytes) * F32x16::splat(of_tensor(scales))).store(kept);
    }
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
