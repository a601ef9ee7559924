// SPDX-License-Identifier: MIT
// Writes a row of any output type: as it is, or divided by scales that are given, or found, a row or a group of neighbours at a
// time (docs/quantisation.md).
#pragma once

#include "tile/gpu/narrow_f8.hpp"
#include "tile/gpu/row_input.cuh"

namespace tilewright {

// is_near_one (quantise.hpp), in few instructions.
__device__ __forceinline__ bool near_one(float x) { return fabsf(x) >= 0x1p-100f && fabsf(x) <= 0x1p100f; }
__device__ __forceinline__ Divisor divisor(float scale) { return {scale, reciprocal_near_one(scale), near_one(scale)}; }
// IEEE's quotient by a scale that is near one.
__device__ __forceinline__ float corrected_quotient(float x, const Divisor& by) {
  const float first = __fmul_rn(x, by.reciprocal);
  return __fmaf_rn(__fmaf_rn(first, -by.scale, x), by.reciprocal, first);
}
// kBounded: where the scale is near one, none is larger than the type's largest value.
template <bool kBounded>
__device__ __forceinline__ void divide(Piece& p, const Divisor& by) {
  if (by.near_one) {
    return for_elements([&](int i) {
      const float quotient = corrected_quotient(p.v[i], by);
      p.v[i] = kBounded || fabsf(quotient) < 0x1p100f ? quotient : __fmul_rn(p.v[i], by.reciprocal);
    });
  }
  for_elements([&](int i) { p.v[i] = p.v[i] / by.scale; });
}

// To the nearest integer by a sum whose last place is 1, ties to even; NaN is 0.
__device__ __forceinline__ unsigned narrow_i8(float x) {
  const float moved = __fadd_rn(at_most(at_least(x, -128), 127), 12582912.0f);  // 1.5 * 2^23
  return x == x ? __builtin_bit_cast(unsigned, moved) & 255 : 0;
}
// Codes of 8 bits, the first four and the others.
__device__ __forceinline__ void narrow_codes(DType dtype, const Piece& p, unsigned (&word)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float a = p.v[4 * i], b = p.v[4 * i + 1], c = p.v[4 * i + 2], d = p.v[4 * i + 3];
    switch (dtype) {
      case DType::kF8E4M3: word[i] = narrow_f8x4<e4m3::Format>(a, b, c, d); break;
      case DType::kF8E5M2: word[i] = narrow_f8x4<e5m2::Format>(a, b, c, d); break;
      case DType::kF8E4M3Fnuz: word[i] = narrow_f8x4<e4m3fnuz::Format>(a, b, c, d); break;
      case DType::kF8E5M2Fnuz: word[i] = narrow_f8x4<e5m2fnuz::Format>(a, b, c, d); break;
      default: word[i] = narrow_i8(a) | narrow_i8(b) << 8 | narrow_i8(c) << 16 | narrow_i8(d) << 24; break;
    }
  }
}
// Eight of 4 bits.
__device__ __forceinline__ unsigned narrow_nibbles(const Piece& p) {
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < kRowPiece; ++i) word |= narrow_many<e2m1x2::Format>(p.v[i]) << (4 * i);
  return word;
}

template <DType kType, bool kWhole>
__device__ __forceinline__ void encode_piece(char* row, DType dtype, long long n, int count, const Piece& from) {
  const DType type = kType == DType::kNone ? dtype : kType;
  if (!is_quantised(type)) return store_piece<kType, kWhole>(row, dtype, n, count, from);
  if (type == DType::kF4E2M1) {
    const unsigned word = narrow_nibbles(from);
    char* const to = row + n / 2;
    if (at_once<kWhole>(to, count, 4)) {
      *reinterpret_cast<unsigned*>(to) = word;
      return;
    }
    if constexpr (kWhole) return;
    // The last of an odd number leaves the upper half of its byte zero.
    const unsigned mine = count < kRowPiece ? word & ((1u << (4 * count)) - 1) : word;
#pragma unroll
    for (int i = 0; i < kRowPiece; i += 2) {
      if (i < count) to[i / 2] = static_cast<char>(mine >> (4 * i));
    }
    return;
  }
  unsigned word[2];
  narrow_codes(type, from, word);
  char* const to = row + n;
  if (at_once<kWhole>(to, count, 8)) return store_vector2(reinterpret_cast<unsigned*>(to), word[0], word[1]);
  if constexpr (kWhole) return;
  const int there = anew(count);
  for_elements([&](int i) {
    if (i < there) to[i] = static_cast<char>(word[i / 4] >> (8 * (i % 4)));
  });
}

// The scale of a group; one thread writes it.
__device__ __forceinline__ Divisor found_divisor(const QuantisedScales& scales, DType out, long long at, float most,
                                                 bool writes) {
  if (scales.dtype == DType::kE8M0) {
    const e8m0 code = power_scale_for(most, out, scales.rounding);
    if (writes) static_cast<unsigned char*>(scales.data)[at] = code.bits;
    return divisor(widen(code));
  }
  if (out == DType::kF4E2M1 && scales.dtype == DType::kF8E4M3) {
    const e4m3 code = multiple_scale_for(most, out, of_tensor(scales));
    if (writes) static_cast<unsigned char*>(scales.data)[at] = code.bits;
    return divisor(multiple_divisor(code, of_tensor(scales)));
  }
  Divisor by;
  if (most >= 0x1p-90f && most <= 0x1p100f) {  // then the scale is near one, too
    const float scale = corrected_quotient(most, divisor_of(quantised_limit(out)));
    by = {scale, reciprocal_near_one(scale), true};
  } else {
    by = divisor(scale_for(most, out));
  }
  if (writes) static_cast<float*>(scales.data)[at] = by.scale;
  return by;
}

// The largest of `sharing` threads that are neighbours.
template <int kSharing>
__device__ __forceinline__ float largest_of_group(float most, int sharing) {
  const auto merge = [&](int distance) { most = at_least(most, lane_xor(most, static_cast<unsigned>(distance))); };
  if constexpr (kSharing > 0) {
#pragma unroll
    for (int distance = 1; distance < kSharing; distance *= 2) merge(distance);
  } else {
#pragma unroll 1
    for (int distance = 1; distance < sharing; distance *= 2) merge(distance);
  }
  return most;
}

// What is done to quotients before they become codes: nothing.
struct KeepQuotients {
  __device__ __forceinline__ void operator()(DType, long long, long long, Piece&) const {}
};

// A row of the output, of the values that make(n, count, piece, j) makes, with zeros behind `count`: of those in registers, once;
// or where rows are read again, in each pass. round(out, row, n, piece) has the quotients before they are narrowed.
template <RowGpuConfig kConfig, class Make, class Round = KeepQuotients>
__device__ __forceinline__ void store_row(GpuRow<kConfig>& row, Make&& make, const Round& round = {}) {
  const RowArgs& args = anew(row.args);
  const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
  const Quantisation quant = kConfig.x == DType::kNone ? args.scale.quant : kConfig.quant;
  char* const to = row_start<kConfig.out>(args.out, row.at);
  const long long scale_at = row_offset(args.scale.stride, row.at);

  // Groups: threads that are neighbours have one between them.
  if (quant == Quantisation::kGroup) {
    const int group = kConfig.group > 0 ? kConfig.group : args.scale.group, sharing = group / kRowPiece;
    row.template each<true>(make, [&](long long n, int count, Piece& p) {
      float most = 0;
      for_elements([&](int i) { most = larger_magnitude(most, p.v[i]); });
      most = largest_of_group<kConfig.group / kRowPiece>(most, sharing);
      const bool writes = count > 0 && row.thread % sharing == 0;
      const Divisor by = found_divisor(args.scale, out, scale_at + n / group * args.scale.stride_group, most, writes);
      // Multiples of a scale that is given may saturate.
      constexpr bool kBounded = kConfig.out != DType::kF4E2M1 && kConfig.out != DType::kNone;
      divide<kBounded>(p, by);
      round(out, row.index, n, p);
      encode_piece<kConfig.out, kConfig.whole>(to, out, n, count, p);
    });
    return;
  }

  Divisor by{};
  const auto encode = [&](long long n, int count, Piece& p) {
    if (quant == Quantisation::kRow) divide<true>(p, by);
    if (is_per_tensor(quant)) divide<false>(p, by);
    if (quant != Quantisation::kNone) round(out, row.index, n, p);
    encode_piece<kConfig.out, kConfig.whole>(to, out, n, count, p);
  };
  if (quant == Quantisation::kRow) {
    float most = 0;
    row.template each<true>(
        make, [&](long long, int, Piece& p) { for_elements([&](int i) { most = larger_magnitude(most, p.v[i]); }); });
    most = row.reduce(most, [](float a, float b) { return at_least(a, b); });
    by = found_divisor(args.scale, out, scale_at, most, row.there && anew(row.thread) == 0);
    return row.template each<false>(make, encode);
  }
  if (is_per_tensor(quant)) by = divisor(*static_cast<const float*>(args.scale.data));
  row.template each<true>(make, encode);
}

// The steps before the rows, of values by with_values(row, use), which calls use(make); true if this was one.
template <RowGpuConfig kConfig, class WithValues>
__device__ __forceinline__ bool find_tensor_scale(const RowArgs& args, WithValues&& with_values) {
  if (args.step == RowStep::kRows) return false;
  constexpr int kBlock = row_block_threads(kConfig.threads);
  float most[1] = {0};
  if (args.step == RowStep::kFind) {
    for_rows<kConfig>(args, [&](GpuRow<kConfig>& row) {
      with_values(row, [&](auto&& make) {
        row.template each<true>(make, [&](long long, int, Piece& p) {
          for_elements([&](int i) { most[0] = larger_magnitude(most[0], p.v[i]); });
        });
      });
    });
  } else {
#pragma unroll 1
    for (long long i = threadIdx.x; i < args.part_count; i += kBlock) most[0] = at_least(args.parts[i], most[0]);
  }
  reduce_threads<kBlock>(most, [](float a, float b) { return at_least(a, b); });
  if (threadIdx.x != 0) return true;
  if (args.step == RowStep::kFind) {
    args.parts[blockIdx.x] = most[0];
  } else {
    if (args.scale.of_tensor == nullptr) {
      found_divisor(args.scale, args.out.dtype, 0, most[0], true);
    } else {
      *args.scale.of_tensor = tensor_scale_for(most[0], args.out.dtype);
    }
  }
  return true;
}

}  // namespace tilewright
