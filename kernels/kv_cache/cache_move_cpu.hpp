// SPDX-License-Identifier: MIT
// cache_move_cpu: rows of a paged cache to where they go, as they are, or codes times their scale. Typed by its config, or at run time.
#pragma once

#include "kv_cache/cache_move_args.hpp"
#include "tile/cpu/row_codes.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What each code of a type is, for codes that do not lie side by side, or whose type is known at run time.
struct CodeValues {
  float of[256];
};
inline __attribute__((noinline)) void list_codes(DType dtype, CodeValues& values) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<unsigned char>(code);
    switch (dtype) {
      case DType::kF8E4M3: values.of[code] = load_one<DType::kF8E4M3>(&byte); break;
      case DType::kF8E5M2: values.of[code] = load_one<DType::kF8E5M2>(&byte); break;
      case DType::kF8E4M3Fnuz: values.of[code] = load_one<DType::kF8E4M3Fnuz>(&byte); break;
      case DType::kF8E5M2Fnuz: values.of[code] = load_one<DType::kF8E5M2Fnuz>(&byte); break;
      default: values.of[code] = load_one<DType::kI8>(&byte); break;
    }
  }
}

// Runs that are neighbours on both sides at a time.
inline void copy_row(const CacheMoveArgs& args, const char* from, char* to, int bytes) {
  const auto run_of = [](const PagedTensor& t) { return t.element == 1 ? t.elements : 1; };
  const int one = run_of(args.from), other = run_of(args.to);
  for (long long d = 0; d < args.n;) {
    const long long left = args.n - d, a = one - d % one, b = other - d % other;
    long long run = a < b ? a : b;
    run = run < left ? run : left;
    __builtin_memcpy(to + paged_element(args.to, static_cast<int>(d)) * bytes,
                     from + paged_element(args.from, static_cast<int>(d)) * bytes,
                     static_cast<unsigned long>(run * bytes));
    d += run;
  }
}

inline bool lies_side_by_side(const PagedTensor& t, long long n) { return t.element == 1 && t.elements >= n; }

template <DType kIn, DType kOut>
void widen_row(const CacheMoveArgs& args, const CodeValues& values, float scale, const char* from, char* to) {
  const int bytes = dtype_bits(args.out) / 8;
  const bool gather = !lies_side_by_side(args.from, args.n), scatter = !lies_side_by_side(args.to, args.n);
  if constexpr (kIn != DType::kNone) {
    if (!gather && !scatter) {
      return for_pieces(args.n, [&](auto at) __attribute__((always_inline)) {
        const F32x16 x =
            at.count == kVec ? widen_codes<kIn>(from + at.n) : widen_codes_tail<kIn>(from + at.n, at.count);
        store_piece<kOut>(to, args.out, at, x * F32x16::splat(scale));
      });
    }
  }
  for_pieces(args.n, [&](auto at) __attribute__((always_inline)) {
    alignas(64) float lane[kVec];
    for (int i = 0; i < kVec; ++i) {
      const int d = static_cast<int>(at.n) + (i < at.count ? i : 0);
      lane[i] = values.of[static_cast<unsigned char>(from[gather ? paged_element(args.from, d) : d])];
    }
    const F32x16 x = F32x16::load(lane) * F32x16::splat(scale);
    if (!scatter) return store_piece<kOut>(to, args.out, at, x);
    char line[kVec * 4];
    store_piece<kOut>(line, args.out, RowPiece<true>{0, kVec}, x);
    for (int i = 0; i < at.count; ++i) {
      __builtin_memcpy(to + paged_element(args.to, static_cast<int>(at.n) + i) * bytes, line + i * bytes,
                       static_cast<unsigned>(bytes));
    }
  });
}

template <CacheMoveCpuConfig kConfig>
void cache_move_cpu(const CacheMoveArgs& args, unsigned unit, unsigned units) {
  const int in = dtype_bits(args.in) / 8, out = dtype_bits(args.out) / 8;
  CodeValues values;
  constexpr bool kTyped = kConfig.out != kConfig.x;
  const bool by_table = !kTyped || !lies_side_by_side(args.from, args.n) || !lies_side_by_side(args.to, args.n);
  if (args.in != args.out && by_table) list_codes(args.in, values);
  const long long last = share_edge(args.rows, unit + 1, units);
  for (long long row = share_edge(args.rows, unit, units); row < last; ++row) {
    const CacheMove move = cache_move(args, row);
    if (!move.from.known || !move.to.known) continue;
    const char* const from =
        static_cast<const char*>(args.from.data) + paged_head(args.from, move.from, move.head) * in;
    char* const to = static_cast<char*>(args.to.data) + paged_head(args.to, move.to, move.head) * out;
    if (args.in == args.out) {
      copy_row(args, from, to, in);
      continue;
    }
    const float scale = static_cast<const float*>(args.scale.data)[paged_scale(args.scale, move.from, move.head)];
    widen_row<kTyped ? kConfig.x : DType::kNone, kTyped ? kConfig.out : DType::kNone>(args, values, scale, from, to);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
