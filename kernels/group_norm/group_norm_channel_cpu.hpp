// SPDX-License-Identifier: MIT
// What group_norm_cpu and its gradient do with a channel: what it is normalised with, where it begins, how groups' moments are merged.
#pragma once

#include "gemm/cpu/gemm_activation_cpu.hpp"
#include "group_norm/group_norm_args.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What a channel is normalised with: (x - mean) by + bias, `by` with the weight.
template <class Value>
struct GroupNormScale {
  Value mean, by, bias;
};
template <bool kSilu>
TILEWRIGHT_INLINE F32x16 group_norm_value(const GroupNormScale<F32x16>& of, F32x16 x) {
  const F32x16 y = fma(x - of.mean, of.by, of.bias);
  return kSilu ? silu(y) : y;
}
TILEWRIGHT_INLINE float column_element(const RowVector& v, long long channel, float otherwise) {
  if (v.data == nullptr) return otherwise;
  const char* const from = static_cast<const char*>(v.data) + channel * dtype_bits(v.dtype) / 8;
  return with_float<DType::kNone>(v.dtype, [&](auto type) { return load_one<type.value>(from); });
}
// `group`: its mean, and what deviations from it are multiplied by.
TILEWRIGHT_INLINE GroupNormScale<float> group_norm_scale(const GroupNormArgs& args, const float* group,
                                                         long long channel) {
  return {group[0], group[1] * column_element(args.weight, channel, 1), column_element(args.bias, channel, 0)};
}
TILEWRIGHT_INLINE float* group_of(const GroupNormArgs& args, long long image, long long channel) {
  return group_part(args, image, channel / (args.channels / args.groups));
}
TILEWRIGHT_INLINE GroupNormScale<F32x16> splat(const GroupNormScale<float>& of) {
  return {F32x16::splat(of.mean), F32x16::splat(of.by), F32x16::splat(of.bias)};
}

TILEWRIGHT_INLINE char* line_start(const GroupNormArgs& args, const GroupNormTensor& t, long long image,
                                   long long line) {
  return static_cast<char*>(t.data) + (image * t.image + line * t.line) * dtype_bits(args.dtype) / 8;
}

// In f64, in which a sum of equal means is exact.
inline void merge_moments_of(const GroupNormArgs& args, const Quotient& group) {
  const long long channels = args.channels / args.groups;
  const auto each = [&](auto&& body) {
    for (long long chunk = 0; chunk < args.chunks; ++chunk) {
      const GroupNormChunk at = group_norm_chunk(args, group.whole * args.chunks + chunk);
      const float* const of = channel_part(args, at, group.rest * channels);
      for (long long c = 0; c < channels; ++c) body(static_cast<double>(at.count), of[2 * c], of[2 * c + 1]);
    }
  };
  const auto n = static_cast<double>(channels * args.positions);
  double sum = 0, squares = 0;
  each([&](double count, float mean, float) { sum += count * static_cast<double>(mean); });
  const double mean = sum / n;
  each([&](double count, float of, float variance) {
    const double d = static_cast<double>(of) - mean;
    squares += count * (static_cast<double>(variance) + d * d);
  });
  float* const to = group_part(args, group.whole, group.rest);
  to[0] = static_cast<float>(mean);
  to[1] = static_cast<float>(1 / __builtin_sqrt(squares / n + static_cast<double>(args.eps)));
}
inline void merge_group_moments(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_share(args.images * args.groups, unit, units,
            [&](long long index) { merge_moments_of(args, divided_by(index, args.groups)); });
}

// An output that no cache will hold goes past them in whole lines.
template <DType kType>
TILEWRIGHT_INLINE bool streams_output(const GroupNormArgs& args) {
  const long long bytes = args.images * args.channels * args.positions * dtype_bits(args.dtype) / 8;
  return kType != DType::kNone && kStreamsLines && bytes > kCachedOutputBytes;
}
// Of lines that are streamed. Clang looks at what `if constexpr` leaves out of a generic lambda.
template <DType kType>
inline constexpr DType kLineType = kType == DType::kNone ? DType::kF32 : kType;

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
