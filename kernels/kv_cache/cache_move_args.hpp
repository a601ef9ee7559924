// SPDX-License-Identifier: MIT
// What host and kernels share of moves from a paged cache: blocks to blocks by pairs of numbers, or tokens of requests by their block
// table to rows that lie one behind the other. Freestanding.
#pragma once

#include "kv_cache/kv_cache_args.hpp"
#include "tile/common/quotient.hpp"

namespace tilewright {

struct CacheMoveArgs {
  long long rows, n;  // heads of positions of pairs, or of tokens; elements of one
  long long heads;    // neighbours among rows
  long long from_blocks, to_blocks, block_size;
  PagedTensor from, to;                   // to, of tokens: blocks of one each
  PagedScale scale;                       // of `from`, where codes become floats
  const int* index;                       // [pairs, 2], or block table [requests, columns]
  const int* lengths;                     // null = pairs; [requests + 1], the number of tokens before each request
  long long stride_index, stride_column;  // in words
  long long requests, columns;
  bool wide;           // numbers of pairs are two words each
  DType in, out;       // equal: elements move as they are
  long long grid;      // GPU: blocks
  Denominator pieces;  // GPU: of a row
};

// What a kernel is compiled for. kNone as x: typed at run time.
struct CacheMoveCpuConfig {
  static constexpr const char* kTypeName = "CacheMoveCpuConfig";
  DType x, out;

  bool operator==(const CacheMoveCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("out", self.out);
  }
};
// `whole`: 16 bytes at a time, of any type where both are kNone, or 8 codes that become floats. Else element by element, typed at run
// time.
struct CacheMoveGpuConfig {
  static constexpr const char* kTypeName = "CacheMoveGpuConfig";
  DType x, out;
  bool whole;

  bool operator==(const CacheMoveGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("out", self.out);
    visit("whole", self.whole);
  }
};
inline constexpr int kCacheMoveEach = 4;  // pieces that a thread asks for before it writes any
inline constexpr int kCacheMoveSpan = kRowBlockThreads * kCacheMoveEach;
inline constexpr int kCacheMoveSharedBytes = kCacheMoveSpan * 24;  // of rows, one a piece at most

// Where a row comes from and goes to. What is none of its cache's blocks moves nothing.
struct CacheMove {
  CachePlace from, to;
  int head;
};
constexpr CacheMove cache_move(const CacheMoveArgs& args, long long row) {
  CacheMove move{};
  const Quotient of_head = divided_by(row, args.heads);
  move.head = static_cast<int>(of_head.rest);
  const auto in_cache = [](long long block, long long blocks) { return block >= 0 && block < blocks; };

  // A position of a pair of blocks.
  if (args.lengths == nullptr) {
    const Quotient pair = divided_by(of_head.whole, args.block_size);
    const int* const numbers = args.index + pair.whole * args.stride_index;
    const long long from = cache_number(numbers, args.stride_column, args.wide, 0);
    const long long to = cache_number(numbers, args.stride_column, args.wide, 1);
    const bool known = in_cache(from, args.from_blocks) && in_cache(to, args.to_blocks);
    move.from = {from, static_cast<int>(pair.rest), known}, move.to = {to, static_cast<int>(pair.rest), known};
    return move;
  }

  // A token: of the last request that begins at it or before.
  const long long token = of_head.whole;
  const long long low = sequence_of(args.lengths, args.requests, token);
  move.to = {token, 0, args.requests > 0 && args.lengths[low] <= token && token < args.lengths[low + 1]};
  if (!move.to.known) return move;
  const Quotient place = divided_by(token - args.lengths[low], args.block_size);
  if (place.whole >= args.columns) return move;
  const long long block = args.index[low * args.stride_index + place.whole * args.stride_column];
  move.from = {block, static_cast<int>(place.rest), in_cache(block, args.from_blocks)};
  return move;
}

}  // namespace tilewright
