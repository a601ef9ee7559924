// SPDX-License-Identifier: MIT
// kv_cache_write_cpu: heads of tokens, normalised and turned where asked for, into a paged cache. Typed by its config, or at run
// time.
#pragma once

#include "kv_cache/cache_heads_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What turns all heads of a token, in the order of elements that turn at once, and of others.
struct HeadAngles {
  TokenAngles apart, in_order;
};
inline constexpr int kSomeHeads = 16;  // taken together

// The heads of a tensor and a token.
template <DType kX, DType kOut>
struct HeadWriter {
  const CacheArgs& args;
  const CacheHeads& mine;
  const HeadWeights& weights;
  const HeadAngles& angles;
  DType out;
  CachePlace place;
  long long token;
  bool stream;

  TILEWRIGHT_INLINE DType dtype() const { return kOut == DType::kNone ? out : kOut; }
  TILEWRIGHT_INLINE bool found() const { return mine.scale.mode == CacheScales::kToken; }
  TILEWRIGHT_INLINE const char* from(int h) const {
    const DType x = kX == DType::kNone ? args.x : kX;
    return static_cast<const char*>(mine.in) + (token * mine.stride_token + h * mine.stride_head) * dtype_bits(x) / 8;
  }
  TILEWRIGHT_INLINE char* to(int h) const {
    return static_cast<char*>(mine.out.data) + paged_head(mine.out, place, h) * (dtype_bits(dtype()) / 8);
  }
  // Elements of x. The first pass over them fetches what comes later.
  TILEWRIGHT_INLINE auto elements(const char* row) const {
    return [this, row](auto at) __attribute__((always_inline)) { return load_piece<kX>(row, args.x, at); };
  }
  TILEWRIGHT_INLINE auto first_elements(const char* row) const {
    return [this, row](auto at) __attribute__((always_inline)) {
      fetch(row + at.n * dtype_bits(kX == DType::kNone ? args.x : kX) / 8 + kFetchedLines);
      return load_piece<kX>(row, args.x, at);
    };
  }
  // What is left of it times that and weights.
  template <class Value>
  TILEWRIGHT_INLINE auto normed(float inverse, Value value) const {
    return [this, inverse, value](auto at) __attribute__((always_inline)) {
      return value(at) * F32x16::splat(inverse) * F32x16::load(weights.of + at.n);
    };
  }

  // body(first, count): what takes long to be known is made of some heads before it is needed.
  template <class Body>
  TILEWRIGHT_INLINE void some_heads(Body&& body) const {
    for (int h = 0; h < mine.heads; h += kSomeHeads) body(h, mine.heads - h < kSomeHeads ? mine.heads - h : kSomeHeads);
  }
  // body(head, what its squares say of it), of elements(head) in the order of kType's.
  template <DType kType, class Elements, class Body>
  TILEWRIGHT_INLINE void normed_heads(Elements&& elements, Body&& body) const {
    some_heads([&](int first, int count) __attribute__((always_inline)) {
      float inverse[kSomeHeads];
      for (int i = 0; i < count; ++i) inverse[i] = squares_of_head<kType>(mine.n, elements(first + i));
      for (int i = 0; i < count; ++i) inverse[i] = inverse_of_squares(args, mine.n, inverse[i]);
      for (int i = 0; i < count; ++i) body(first + i, inverse[i]);
    });
  }

  // Heads that do not turn, nor wait for a scale but that of their elements.
  TILEWRIGHT_INLINE void write_head(int h, const Divisor& by, auto&& value) const {
    encode_head<kOut>(to(h), mine.n, by, found(), stream, value);
  }
  TILEWRIGHT_INLINE void write_plain() const {
    const auto divisor = [&](int h) __attribute__((always_inline)) {
      return is_quantised(kOut) ? given_divisor(mine, place, h) : Divisor{};
    };
    if (mine.normed) {
      normed_heads<DType::kNone>([&](int h) __attribute__((always_inline)) { return first_elements(from(h)); },
                                 [&](int h, float inverse) __attribute__((always_inline)) {
                                   write_head(h, divisor(h), normed(inverse, elements(from(h))));
                                 });
    } else if (is_quantised(kOut) && found()) {
      some_heads([&](int first, int count) __attribute__((always_inline)) {
        Divisor by[kSomeHeads];
        for (int i = 0; i < count; ++i) {
          const float most = largest_magnitude(mine.n, first_elements(from(first + i)));
          by[i] = find_divisor(mine, kOut, place, first + i, most);
        }
        for (int i = 0; i < count; ++i) write_head(first + i, by[i], elements(from(first + i)));
      });
    } else {
      for (int h = 0; h < mine.heads; ++h) write_head(h, divisor(h), first_elements(from(h)));
    }
  }

  // Heads that turn by whole lines, in the order of kX's elements.
  TILEWRIGHT_INLINE auto apart(const char* row) const {
    return [row](auto at) __attribute__((always_inline)) { return load_apart<kX>(row + at.n * kBytes<kX>); };
  }
  TILEWRIGHT_INLINE auto first_apart(const char* row) const {
    return [row](auto at) __attribute__((always_inline)) {
      fetch(row + at.n * kBytes<kX> + kFetchedLines);
      return load_apart<kX>(row + at.n * kBytes<kX>);
    };
  }
  TILEWRIGHT_INLINE void turn_and_write(int h, auto&& value) const {
    char* const row = to(h);
    const bool past = stream && begins_line(row);
    Divisor by{};
    if constexpr (is_quantised(kOut)) by = given_divisor(mine, place, h);
    turn_lines<kOut>(args.rotation, value, angles.apart, [&](long long n, auto& line) __attribute__((always_inline)) {
      if constexpr (is_quantised(kOut)) {
        for (F32x16& x : line) x = divided(x, by);
      }
      encode_apart<kX, kOut>(row + n * dtype_bits(kOut) / 8, line, past);
    });
  }
  TILEWRIGHT_INLINE void write_turned() const {
    if (mine.normed) {
      normed_heads<kX>([&](int h) __attribute__((always_inline)) { return first_apart(from(h)); },
                       [&](int h, float inverse)
                           __attribute__((always_inline)) { turn_and_write(h, normed(inverse, apart(from(h)))); });
    } else {
      for (int h = 0; h < mine.heads; ++h) turn_and_write(h, first_apart(from(h)));
    }
  }

  // Any others, as floats in memory.
  TILEWRIGHT_INLINE void read(HeadAtWork& head, int h) const {
    const auto value = first_elements(from(h));
    for_pieces(mine.n, [&](auto at) __attribute__((always_inline)) { value(at).store(head.value + at.n); });
    if (mine.normed)
      head.inverse = inverse_of_squares(args, mine.n, squares_of_head<DType::kNone>(mine.n, floats(head)));
  }
  TILEWRIGHT_INLINE auto floats(const HeadAtWork& head) const {
    return [&head](auto at) __attribute__((always_inline)) { return F32x16::load(head.value + at.n); };
  }
  TILEWRIGHT_INLINE void work(HeadAtWork& head, int h) const {
    if (mine.normed) {
      const auto value = normed(head.inverse, floats(head));
      for_pieces(mine.n, [&](auto at) __attribute__((always_inline)) { value(at).store(head.value + at.n); });
    }
    auto* const row = reinterpret_cast<char*>(head.value);
    if (mine.turned) turn_runs<DType::kF32>(args.rotation, row, row, DType::kF32, false, angles.in_order);
    if (!is_quantised(dtype())) return;
    if (!found()) {
      head.by = given_divisor(mine, place, h);
      return;
    }
    // A tail's lanes may have been written.
    for (int d = mine.n; d % kVec != 0; ++d) head.value[d] = 0;
    head.by = find_divisor(mine, dtype(), place, h, largest_magnitude(mine.n, floats(head)));
  }
  TILEWRIGHT_INLINE void encode(char* row, const HeadAtWork& head, bool past) const {
    if constexpr (kOut == DType::kNone) {
      encode_any(row, dtype(), head.value, mine.n, is_quantised(dtype()) ? &head.by : nullptr);
    } else {
      encode_head<kOut>(row, mine.n, head.by, found(), past, floats(head));
    }
  }
  TILEWRIGHT_INLINE void write(const HeadAtWork& head, int h) const {
    if (lie_together(mine)) return encode(to(h), head, stream);
    alignas(64) char codes[kMostHeadElements * 4];
    encode(codes, head, false);
    scatter_head(mine.out, dtype_bits(dtype()) / 8, to(h), codes, mine.n);
  }

  // Each is a step behind the next one: its sums and its scale, which take long to be known, are made meanwhile.
  TILEWRIGHT_INLINE void write_worked() const {
    HeadAtWork heads[3];
    for (int h = 0; h < mine.heads + 2; ++h) {
      if (h < mine.heads) read(heads[h % 3], h);
      if (h >= 1 && h <= mine.heads) work(heads[(h - 1) % 3], h - 1);
      if (h >= 2) write(heads[(h - 2) % 3], h - 2);
    }
  }
  __attribute__((noinline)) void write_all() const {
    if constexpr (kOut != DType::kNone) {
      if (lie_together(mine) && !mine.turned && !(mine.normed && found())) return write_plain();
      if (turns_at_once<kOut>(args, mine)) return write_turned();
    }
    write_worked();
  }
};

template <CacheCpuConfig kConfig>
void kv_cache_write_cpu(const CacheArgs& arguments, unsigned unit, unsigned units) {
  const CacheArgs args = arguments;  // which no store changes
  const bool stream = args.stream;
  constexpr DType kTypes[] = {kConfig.q, kConfig.cache, kConfig.cache};
  HeadWeights weights[kCacheTensors];
  bool at_once = false, in_order = false;
  unroll<kCacheTensors>([&](auto tensor) __attribute__((always_inline)) {
    const CacheHeads& mine = args.heads[tensor];
    const bool turns = turns_at_once<kTypes[tensor]>(args, mine);
    if (turns && mine.heads > 0) at_once = true;
    if (!turns && mine.turned && mine.heads > 0) in_order = true;
    if (!mine.normed) return;
    if (turns) {
      weights[tensor].template load<kConfig.x>(args, mine);
    } else {
      weights[tensor].template load<DType::kNone>(args, mine);
    }
  });
  HeadAngles angles;
  for_share(args.tokens, unit, units, [&](long long token) __attribute__((always_inline)) {
    RowAngles of_axis[kRopeAxes];
    if (at_once || in_order) {
      for (int axis = 0; axis < args.rotation.axes; ++axis) of_axis[axis] = cache_angles(args, token, axis);
    }
    if (at_once) angles.apart.keep<kConfig.x>(args.rotation, of_axis);
    if (in_order) angles.in_order.keep<DType::kNone>(args.rotation, of_axis);
    for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
      const CacheHeads& mine = args.heads[tensor];
      if (mine.heads == 0) continue;
      const CachePlace place = cache_place(args, tensor, token);
      if (!place.known) continue;
      if constexpr (kConfig.x == DType::kNone || kConfig.q != DType::kNone) {
        if (tensor == kCacheQueries) {
          HeadWriter<kConfig.x, kConfig.q>{args, mine, weights[tensor], angles, args.q, place, token, stream}
              .write_all();
          continue;
        }
      }
      HeadWriter<kConfig.x, kConfig.cache>{args, mine, weights[tensor], angles, args.cache, place, token, stream}
          .write_all();
    }
  });
  if (stream) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
