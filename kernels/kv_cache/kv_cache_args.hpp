// SPDX-License-Identifier: MIT
// What host and kernels of the paged KV cache share: heads of tokens, and where each of them goes. Freestanding.
#pragma once

#include "tile/common/row_args.hpp"

namespace tilewright {

// How a cache of heads lies, D elements a head; docs/kv_cache.md.
enum class CacheLayout : unsigned char {
  kNhd,              // [blocks, block, H, D], without H where there is one head
  kHnd,              // [blocks, H, block, D]
  kKeyPacked,        // [blocks, H, D / x, block, x]
  kValueTransposed,  // [blocks, H, D, block]
  kValuePacked,      // [blocks, H, block / x, D, x]
};
inline constexpr const char* kCacheLayoutNames[] = {"nhd", "hnd", "key_packed", "value_transposed", "value_packed"};
constexpr const char* const* enum_names(CacheLayout) { return kCacheLayoutNames; }
constexpr int enum_count(CacheLayout) { return 5; }

// Which elements of a quantised cache share a scale.
enum class CacheScales : unsigned char {
  kNone,    // not quantised
  kTensor,  // all, given
  kHead,    // those of a head, given
  kToken,   // those of a head of a token, found and written
};
inline constexpr const char* kCacheScalesNames[] = {"none", "tensor", "head", "token"};
constexpr const char* const* enum_names(CacheScales) { return kCacheScalesNames; }
constexpr int enum_count(CacheScales) { return 4; }

// Any layout: position t of a block and element d of a head lie in runs of so many neighbours, (t / positions, t % positions) and
// (d / elements, d % elements), which have a stride each. In elements.
struct PagedTensor {
  void* data;
  long long block, head, position, position_run, element, element_run;
  int positions, elements;
  bool pieces;  // kRowPiece elements of a head from a multiple of that on are one aligned store
};
// f32: one, one a head, or one a head of a token where that lies.
struct PagedScale {
  void* data;
  long long block, position, head;
  CacheScales mode;
};

// Heads of one of the three tensors. Strides in elements.
struct CacheHeads {
  const void* in;
  long long stride_token, stride_head;
  PagedTensor out;
  PagedScale scale;
  const void* weight;  // [n] of the norm; null = ones
  int heads, n;
  bool normed, turned;
};
enum CacheTensor : int { kCacheQueries, kCacheKeys, kCacheValues, kCacheTensors };

struct CacheArgs {
  long long tokens, sets;  // sets: of heads that are taken at once
  long long blocks, block_size;
  Denominator token_sets, block_slots;  // sets of a token, and block_size
  CacheHeads heads[kCacheTensors];      // the queries' output: blocks of one token each
  const int* slots;
  long long stride_slot;            // in words
  RowRotation rotation;             // of queries and keys; positions along the second dimension, in words
  bool wide_slots, wide_positions;  // two words each
  bool unit_offset;                 // weights are 1 + what stands there
  float eps;
  DType x, q, cache, weight;
  long long grid;  // GPU: blocks
  bool stream;     // CPU: writes go past the caches
};

// What a kernel is compiled for. kNone as x: typed at run time, all of it.
struct CacheCpuConfig {
  static constexpr const char* kTypeName = "CacheCpuConfig";
  DType x, q, cache;  // q: of the output, kNone = no queries

  bool operator==(const CacheCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("q", self.q);
    visit("cache", self.cache);
  }
};
// `threads` share a head, each has 16 elements of it in two pieces, of each of `heads` heads of a token and tensor. `plain`: pieces
// are stored at once, no 1 is added to weights, what turns lies half of the dims apart and has one axis of positions; else the
// arguments tell.
struct CacheGpuConfig {
  static constexpr const char* kTypeName = "CacheGpuConfig";
  DType x, q, cache;
  DType table, weight;  // kNone: nothing turns; no weights
  bool norm, finds;     // queries and keys are normalised; scales are found
  int threads, heads;
  bool plain = false;
  bool edge = false;  // as RowGpuConfig's

  bool operator==(const CacheGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("q", self.q);
    visit("cache", self.cache);
    visit("table", self.table);
    visit("weight", self.weight);
    visit("norm", self.norm);
    visit("finds", self.finds);
    visit("threads", self.threads);
    visit("heads", self.heads);
    visit("plain", self.plain);
    visit("edge", self.edge);
  }
};
inline constexpr int kHeadPieces = 2 * kRowPiece;  // elements of a head that a thread has
inline constexpr int kMostHeadElements = 2048;     // of a head
inline constexpr int kAnyHeadThreads = kRowLanes;  // that share a head where types are known at run time only

// Number i of a vector of words.
constexpr long long cache_number(const int* words, long long stride, bool wide, long long i) {
  const int* const at = words + i * stride;
  if (!wide) return at[0];
  return static_cast<long long>(static_cast<unsigned long long>(at[1]) << 32 | static_cast<unsigned>(at[0]));
}

// Where a token goes. Slots that are negative, or beyond the cache, are nowhere.
struct CachePlace {
  long long block;
  int position;
  bool known;
};
constexpr long long cache_slot(const CacheArgs& args, long long token) {
  return cache_number(args.slots, args.stride_slot, args.wide_slots, token);
}
constexpr CachePlace cache_place(const CacheArgs& args, int tensor, long long token, long long slot) {
  if (tensor == kCacheQueries) return {token, 0, true};
  const bool known = slot >= 0 && slot < args.blocks * args.block_size;
  if (!known) return {0, 0, false};
  if (slot >> 31 == 0) {
    const auto low = static_cast<unsigned>(slot), block = divided(low, args.block_slots);
    return {block, static_cast<int>(low - block * args.block_slots.by), true};
  }
  return {slot / args.block_size, static_cast<int>(slot % args.block_size), true};
}
constexpr CachePlace cache_place(const CacheArgs& args, int tensor, long long token) {
  return cache_place(args, tensor, token, tensor == kCacheQueries ? 0 : cache_slot(args, token));
}
constexpr long long paged_head(const PagedTensor& t, const CachePlace& at, int head) {
  const long long first = at.block * t.block + head * t.head;
  if (at.position < t.positions) return first + at.position * t.position;  // no division
  return first + at.position / t.positions * t.position_run + at.position % t.positions * t.position;
}
constexpr long long paged_element(const PagedTensor& t, int d) {
  if (d < t.elements) return d * t.element;
  return d / t.elements * t.element_run + d % t.elements * t.element;
}
constexpr long long paged_scale(const PagedScale& s, const CachePlace& at, int head) {
  if (s.mode == CacheScales::kTensor) return 0;
  if (s.mode == CacheScales::kHead) return head * s.head;
  return at.block * s.block + at.position * s.position + head * s.head;
}

// Number `index` of the sets of `each` heads of a token and tensor, as many as the arguments tell.
struct CacheSet {
  long long token;
  int tensor, head;
};
constexpr CacheSet cache_set(const CacheArgs& args, long long index, int each) {
  CacheSet set{};
  if (index >> 31 == 0) {
    const auto low = static_cast<unsigned>(index), token = divided(low, args.token_sets);
    set.token = token, set.head = static_cast<int>(low - token * args.token_sets.by);
  } else {
    set.token = index / args.token_sets.by, set.head = static_cast<int>(index % args.token_sets.by);
  }
  set.head *= each;
  const int q = args.heads[0].heads, k = q + args.heads[1].heads;
  set.tensor = set.head < q ? kCacheQueries : set.head < k ? kCacheKeys : kCacheValues;
  set.head -= set.tensor == kCacheQueries ? 0 : set.tensor == kCacheKeys ? q : k;
  return set;
}
constexpr long long cache_position(const CacheArgs& args, long long token, int axis = 0) {
  const RowRotation& r = args.rotation;
  if (r.positions == nullptr) return token;
  return cache_number(r.positions + axis * r.stride_axis, r.stride_position[1], args.wide_positions, token);
}
constexpr RowAngles cache_angles(const CacheArgs& args, long long token, int axis = 0) {
  return angles_at(args.rotation, cache_position(args, token, axis));
}

}  // namespace tilewright
