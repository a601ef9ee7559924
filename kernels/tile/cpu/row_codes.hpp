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
#if TILEWRIGHT_AVX512
    // A byte in each of 8 lanes, its upper half moved to the upper half of the lane: a permutation reads the lowest four bits of what it has.
    const __m512i bytes = _mm512_maskz_cvtepu8_epi64(0xFF, _mm_loadl_epi64(static_cast<const __m128i*>(p)));
    const __m512i codes = _mm512_or_si512(bytes, _mm512_maskz_slli_epi64(0xFF, bytes, 28));
    return {_mm512_maskz_permutexvar_ps(kAllLanes, codes, F32x16::load(kNibbleTables<kType>.floats).v)};
#else
    // An integer below 2^23 is the mantissa of its sum with that.
    const I32x16 codes = as_int(widen_nibbles<DType::kU4>(p) + F32x16::splat(0x1p23f)) & I32x16::splat(15);
    const I32x16 magnitude = codes & I32x16::splat(7);
    // 0 and 1 are halves. As subnormal floats their product would be slow on CPUs.
    const F32x16 whole = to_float(magnitude), normal = as_float(shift_left<22>(magnitude) + I32x16::splat(126 << 23));
    const F32x16 value = select_less(whole, F32x16::splat(2), whole * F32x16::splat(0.5f), normal);
    return as_float(as_int(value) | shift_left<28>(codes & I32x16::splat(8)));
#endif
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

// The scales of a row that are read, of 16 groups at a time; kNone: the arguments tell which.
template <Quantisation kQuant>
struct GivenScales {
  const QuantisedScales& scales;
  long long first;
  int shift;  // group = 2^shift
  long long groups;
  bool grouped;
  alignas(64) float kept[kVec];

  TILEWRIGHT_INLINE GivenScales(const RowArgs& args, const RowIndex& at)
      : scales(args.scale),
        first(scale_offset(args.scale, args.scale.quant, at)),
        shift(args.scale.group > 0 ? __builtin_ctz(static_cast<unsigned>(args.scale.group)) : 0),
        groups((args.n + args.scale.group - 1) >> shift),
        grouped(has_groups(kQuant == Quantisation::kNone ? args.scale.quant : kQuant)) {}

  // body(first, length, value's scale by its place from there) along a row.
  template <class Body>
  TILEWRIGHT_INLINE void for_spans(long long length, Body&& body) {
    if (!grouped) {
      const float one = load(first);
      return body(0, length, [one](long long) { return one; });
    }
    const int by = shift;
    const long long span = static_cast<long long>(kVec) << by;
    const auto of = [this, by](long long n) { return kept[n >> by]; };
    for (long long n = 0; n < length; n += span) {
      keep(n >> by);
      body(n, length - n < span ? length - n : span, of);
    }
  }

 private:
  TILEWRIGHT_INLINE float load(long long at) const {
    if (scales.dtype == DType::kE8M0) return widen(static_cast<const e8m0*>(scales.data)[at]);
    if (scales.dtype == DType::kF8E4M3) return widen(static_cast<const e4m3*>(scales.data)[at]) * of_tensor(scales);
    return read_as<float>(static_cast<const float*>(scales.data) + at);
  }
  // Those of a byte are widened together.
  __attribute__((noinline)) void keep(long long from) {
    const long long at = first + from * scales.stride_group;
    const int there = groups - from < kVec ? static_cast<int>(groups - from) : kVec;
    if (scales.dtype == DType::kF32) {
      for (int i = 0; i < there; ++i) kept[i] = load(at + i * scales.stride_group);
      return;
    }
    alignas(16) unsigned char bytes[kVec] = {};
    const auto* const codes = static_cast<const unsigned char*>(scales.data) + at;
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
