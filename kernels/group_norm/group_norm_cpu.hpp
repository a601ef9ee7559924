// SPDX-License-Identifier: MIT
// group_norm_cpu: x is read for the moments of each channel's part of a chunk, which are merged to those of groups, and again for the
// output. Typed by its config, or at run time.
#pragma once

#include "gemm/cpu/gemm_activation_cpu.hpp"
#include "group_norm/group_norm_args.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What a channel is normalised with.
template <class Value>
struct GroupNormScale {
  Value mean, inverse, weight, bias;
};
template <bool kSilu>
TILEWRIGHT_INLINE F32x16 group_norm_value(const GroupNormScale<F32x16>& by, F32x16 x) {
  const F32x16 y = fma((x - by.mean) * by.inverse, by.weight, by.bias);
  return kSilu ? silu(y) : y;
}
TILEWRIGHT_INLINE float column_element(const RowVector& v, long long channel, float otherwise) {
  if (v.data == nullptr) return otherwise;
  const char* const from = static_cast<const char*>(v.data) + channel * dtype_bits(v.dtype) / 8;
  return with_float<DType::kNone>(v.dtype, [&](auto type) { return load_one<type.value>(from); });
}
TILEWRIGHT_INLINE GroupNormScale<float> group_norm_scale(const GroupNormArgs& args, long long image,
                                                         long long channel) {
  const float* const of = group_part(args, image, channel / (args.channels / args.groups));
  return {of[0], of[1], column_element(args.weight, channel, 1), column_element(args.bias, channel, 0)};
}
TILEWRIGHT_INLINE GroupNormScale<F32x16> splat(const GroupNormScale<float>& of) {
  return {F32x16::splat(of.mean), F32x16::splat(of.inverse), F32x16::splat(of.weight), F32x16::splat(of.bias)};
}
// Of `count` channels from the first one on; of others nothing is read.
TILEWRIGHT_INLINE GroupNormScale<F32x16> group_norm_scales(const GroupNormArgs& args, long long image, long long first,
                                                           int count) {
  float mean[kVec] = {}, inverse[kVec] = {}, weight[kVec] = {}, bias[kVec] = {};
  for (int i = 0; i < count; ++i) {
    const GroupNormScale<float> of = group_norm_scale(args, image, first + i);
    mean[i] = of.mean, inverse[i] = of.inverse, weight[i] = of.weight, bias[i] = of.bias;
  }
  return {F32x16::load(mean), F32x16::load(inverse), F32x16::load(weight), F32x16::load(bias)};
}

TILEWRIGHT_INLINE char* line_start(const GroupNormArgs& args, const GroupNormTensor& t, long long image,
                                   long long line) {
  return static_cast<char*>(t.data) + (image * t.image + line * t.line) * dtype_bits(args.dtype) / 8;
}

// A unit's share of the channels of chunks: body(chunk, channel, its part's length).
template <class Body>
TILEWRIGHT_INLINE void for_channel_chunks(const GroupNormArgs& args, unsigned unit, unsigned units, Body&& body) {
  for_share(args.images * args.channels * args.chunks, unit, units, [&](long long index) {
    const Quotient at = divided_by(index, args.chunks), channel = divided_by(at.whole, args.channels);
    body(group_norm_chunk(args, channel.whole * args.chunks + at.rest), channel.rest);
  });
}
// Of vectors of channels of chunks, channels last: body(chunk, first channel, RowPiece's kind, how many vectors).
template <class Body>
TILEWRIGHT_INLINE void for_slabs(const GroupNormArgs& args, unsigned unit, unsigned units, Body&& body) {
  constexpr int kSlab = kGroupNormCpuVectors * kVec;
  const long long slabs = (args.channels + kSlab - 1) / kSlab;
  for_share(args.images * args.chunks * slabs, unit, units, [&](long long index) {
    const Quotient at = divided_by(index, slabs);
    const GroupNormChunk chunk = group_norm_chunk(args, at.whole);
    long long first = at.rest * kSlab;
    if (args.channels - first >= kSlab) return body(chunk, RowPiece<true>{first, kVec}, Index<kGroupNormCpuVectors>{});
    for (; first + kVec <= args.channels; first += kVec) body(chunk, RowPiece<true>{first, kVec}, Index<1>{});
    if (first == args.channels) return;
    body(chunk, RowPiece<false>{first, static_cast<int>(args.channels - first)}, Index<1>{});
  });
}

// Lines of a slab are far apart, in another page every few: those of a position that comes are asked for.
template <DType kType, int kVectors, bool kWhole>
TILEWRIGHT_INLINE void fetch_position(const char* x, long long step, RowPiece<kWhole> first) {
  constexpr int kAhead = 8;
  if constexpr (kType != DType::kNone) {
    const char* const from = x + kAhead * step + first.n * kBytes<kType>;
    unroll<(kVectors + kLineVectors<kType> - 1) / kLineVectors<kType>>(
        [&](auto line) __attribute__((always_inline)) { fetch(from + line * 64); });
  }
}

// Differences from the part's first element lose nothing to a mean that is far above them.
template <DType kType>
TILEWRIGHT_INLINE void find_moments_of(const GroupNormArgs& args, const GroupNormChunk& at, long long channel) {
  const char* const x = line_start(args, args.x, at.image, channel) + at.begin * dtype_bits(args.dtype) / 8;
  const float about = with_float<kType>(args.dtype, [x](auto type) { return load_one<type.value>(x); });
  float sum[2];  // of differences, and of their squares
  sum_row(at.count, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
    const F32x16 d = within_row(load_piece<kType>(x, args.dtype, piece) - F32x16::splat(about), piece);
    part[0] = part[0] + d, part[1] = fma(d, d, part[1]);
  });
  const RowMoments found = row_moments(about, sum, static_cast<float>(at.count));
  float* const to = channel_part(args, at, channel);
  to[0] = found.mean, to[1] = found.variance;
}
template <DType kType>
void find_line_moments(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_channel_chunks(args, unit, units,
                     [&](const GroupNormChunk& at, long long channel)
                         __attribute__((always_inline)) { find_moments_of<kType>(args, at, channel); });
}
template <DType kType>
void find_column_moments(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const DType dtype = args.dtype;
  const long long step = args.x.line * dtype_bits(dtype) / 8;
  for_slabs(args, unit, units, [&](const GroupNormChunk& at, auto first, auto vectors) {
    constexpr int kCount = vectors.value;
    F32x16 about[kCount], sum[kCount], squares[kCount];
    const auto load = [first, dtype](const char* x, int v) __attribute__((always_inline)) {
      return load_piece<kType>(x, dtype, decltype(first){first.n + v * kVec, first.count});
    };
    const char* x = line_start(args, args.x, at.image, at.begin);
    for (int v = 0; v < kCount; ++v) about[v] = load(x, v), sum[v] = squares[v] = F32x16::splat(0);
    for (long long i = 0; i < at.count; ++i, x += step) {
      fetch_position<kType, kCount>(x, step, first);
      unroll<kCount>([&](auto v) __attribute__((always_inline)) {
        const F32x16 d = load(x, v) - about[v];
        sum[v] = sum[v] + d, squares[v] = fma(d, d, squares[v]);
      });
    }
    for (int v = 0; v < kCount; ++v) {
      float from[kVec], sums[kVec], of_squares[kVec];
      about[v].store(from), sum[v].store(sums), squares[v].store(of_squares);
      for (int i = 0; i < first.count; ++i) {
        const RowMoments found = row_moments(from[i], {sums[i], of_squares[i]}, static_cast<float>(at.count));
        float* const to = channel_part(args, at, first.n + v * kVec + i);
        to[0] = found.mean, to[1] = found.variance;
      }
    }
  });
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

// Elements `ahead` bytes from these are asked for.
template <DType kType, bool kSilu>
TILEWRIGHT_INLINE void normalise_line(const GroupNormArgs& args, const GroupNormChunk& at, long long channel,
                                      bool streams, long long ahead) {
  const DType dtype = args.dtype;
  const long long bytes = at.begin * dtype_bits(dtype) / 8;
  const char* const x = line_start(args, args.x, at.image, channel) + bytes;
  char* const out = line_start(args, args.out, at.image, channel) + bytes;
  const GroupNormScale<F32x16> by = splat(group_norm_scale(args, at.image, channel));
  long long done = 0;
  if constexpr (kType != DType::kNone) {
    constexpr int kVectors = kLineVectors<kType>;
    const long long whole = streams && begins_line(out) ? at.count / (kVectors * kVec) * (kVectors * kVec) : 0;
    for (; done < whole; done += kVectors * kVec) {
      if (ahead != 0) fetch(x + done * kBytes<kType> + ahead);
      F32x16 line[kVectors];
      for (int i = 0; i < kVectors; ++i) {
        line[i] = group_norm_value<kSilu>(by, load_vec<kType>(x + (done + i * kVec) * kBytes<kType>));
      }
      stream_line<kType>(out + done * kBytes<kType>, line);
    }
  }
  const long long past = done * dtype_bits(dtype) / 8;
  for_pieces(at.count - done, [=](auto piece) __attribute__((always_inline)) {
    const F32x16 y = group_norm_value<kSilu>(by, load_piece<kType>(x + past, dtype, piece));
    store_piece<kType>(out + past, dtype, piece, y);
  });
}
template <DType kType, bool kSilu>
void normalise_lines(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const bool streams = streams_output<kType>(args);
  for_channel_chunks(args, unit, units,
                     [&](const GroupNormChunk& at, long long channel) __attribute__((always_inline)) {
                       normalise_line<kType, kSilu>(args, at, channel, streams, 0);
                     });
  if (streams) stream_fence();
}
// All of a group, whose elements stay in the second level of cache, while the next one's come.
template <DType kType, bool kSilu>
void normalise_groups(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const bool streams = streams_output<kType>(args);
  const long long channels = args.channels / args.groups, groups = args.images * args.groups;
  for_share(groups, unit, units, [&](long long index) {
    const Quotient group = divided_by(index, args.groups);
    const auto each = [&](auto&& body) __attribute__((always_inline)) {
      for (long long c = 0; c < channels; ++c) {
        for (long long chunk = 0; chunk < args.chunks; ++chunk) {
          body(group_norm_chunk(args, group.whole * args.chunks + chunk), group.rest * channels + c);
        }
      }
    };
    each([&](const GroupNormChunk& at, long long channel)
             __attribute__((always_inline)) { find_moments_of<kType>(args, at, channel); });
    merge_moments_of(args, group);
    const Quotient next = divided_by(index + 1 < groups ? index + 1 : index, args.groups);
    const long long ahead = line_start(args, args.x, next.whole, next.rest * channels) -
                            line_start(args, args.x, group.whole, group.rest * channels);
    each([&](const GroupNormChunk& at, long long channel)
             __attribute__((always_inline)) { normalise_line<kType, kSilu>(args, at, channel, streams, ahead); });
  });
  if (streams) stream_fence();
}
template <DType kType, bool kSilu>
void normalise_columns(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const DType dtype = args.dtype;
  const long long step = args.x.line * dtype_bits(dtype) / 8, step_out = args.out.line * dtype_bits(dtype) / 8;
  const bool streams = streams_output<kType>(args) && step_out % kLineBytes == 0;
  for_slabs(args, unit, units, [&](const GroupNormChunk& at, auto first, auto vectors) {
    constexpr int kCount = vectors.value;
    GroupNormScale<F32x16> by[kCount];
    for (int v = 0; v < kCount; ++v) by[v] = group_norm_scales(args, at.image, first.n + v * kVec, first.count);
    const char* x = line_start(args, args.x, at.image, at.begin);
    char* out = line_start(args, args.out, at.image, at.begin);
    const auto value = [&](int v) __attribute__((always_inline)) {
      const decltype(first) piece{first.n + v * kVec, first.count};
      return group_norm_value<kSilu>(by[v], load_piece<kType>(x, dtype, piece));
    };
    if constexpr (kType != DType::kNone && kCount == kGroupNormCpuVectors) {
      constexpr int kVectors = kLineVectors<kLineType<kType>>;
      char* const to = out + first.n * kBytes<kType>;
      if (streams && begins_line(to)) {
        for (long long i = 0; i < at.count; ++i, x += step) {
          fetch_position<kType, kCount>(x, step, first);
          unroll<kCount / kVectors>([&](auto l) __attribute__((always_inline)) {
            F32x16 line[kVectors];
            for (int v = 0; v < kVectors; ++v) line[v] = value(l * kVectors + v);
            stream_line<kLineType<kType>>(to + i * step_out + l * kLineBytes, line);
          });
        }
        return;
      }
    }
    for (long long i = 0; i < at.count; ++i, x += step, out += step_out) {
      fetch_position<kType, kCount>(x, step, first);
      unroll<kCount>([&](auto v) __attribute__((always_inline)) {
        store_piece<kType>(out, dtype, decltype(first){first.n + v * kVec, first.count}, value(v));
      });
    }
  });
  if (streams) stream_fence();
}
// In loops that ask for no activation.
template <DType kType, bool kSilu>
void normalise(const GroupNormArgs& args, bool last, unsigned unit, unsigned units) {
  last ? normalise_columns<kType, kSilu>(args, unit, units) : normalise_lines<kType, kSilu>(args, unit, units);
}

template <GroupNormConfig kConfig>
void group_norm_cpu(const GroupNormArgs& args, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.dtype;
  const bool last = kType == DType::kNone ? args.channels_last : kConfig.channels_last;
  switch (args.step) {
    case GroupNormStep::kMoments:
      return last ? find_column_moments<kType>(args, unit, units) : find_line_moments<kType>(args, unit, units);
    case GroupNormStep::kGroups: return merge_group_moments(args, unit, units);
    case GroupNormStep::kWhole:
      return args.activation == Activation::kSilu ? normalise_groups<kType, true>(args, unit, units)
                                                  : normalise_groups<kType, false>(args, unit, units);
    default:
      return args.activation == Activation::kSilu ? normalise<kType, true>(args, last, unit, units)
                                                  : normalise<kType, false>(args, last, unit, units);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
