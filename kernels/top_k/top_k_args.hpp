// SPDX-License-Identifier: MIT
// What host and top_k's kernels share: the argument struct, the config, where the workspace's parts lie. Freestanding.
#pragma once

#include "tile/common/token_order.hpp"

namespace tilewright {

// Steps of a GPU's kernel. Of few best: those of each chunk of a row, the best of these. Of many: the largest of groups of a chunk's elements,
// which tell what the best of the row reach; the best.
enum class TopKStep : unsigned char { kFind, kChoose };

inline constexpr int kMostTopK = 2048;

struct TopKArgs {
  long long rows, n, stride;
  const void* x;       // [rows, n]
  const int* lengths;  // of rows; null = n
  void* values;        // [rows, k] of x's type; null = none
  long long stride_values;
  int* indices;  // [rows, k]
  long long stride_indices;
  char* workspace;         // GPU: keys, of few best [rows, chunks, places]; or, of many, floats [rows, groups]
  long long chunks, grid;  // GPU: chunks of a row, blocks
  long long groups;        // GPU: of a row at most; 0 = none
  int k, places;           // GPU: of a chunk's list
  DType dtype;             // of x
  TopKStep step;
  bool waits;  // GPU: a step is in front
};

constexpr long long top_k_length(const TopKArgs& a, long long row) {
  if (a.lengths == nullptr) return a.n;
  const long long length = a.lengths[row];
  return length < 0 ? 0 : length < a.n ? length : a.n;
}
inline constexpr float kMinusInfinity = __builtin_bit_cast(float, 0xFF800000u);
// NaN stands with minus infinity.
constexpr float top_k_value(float x) { return x == x ? x : kMinusInfinity; }
constexpr unsigned long long top_k_key(float x, long long index) { return token_key(top_k_value(x), index); }
// A row's j-th element; -1 stands behind a row's end.
constexpr void store_top_k(const TopKArgs& a, long long row, int j, long long index) {
  a.indices[row * a.stride_indices + j] = static_cast<int>(index);
  if (a.values == nullptr) return;
  const long long to = row * a.stride_values + j, from = row * a.stride + index;
  if (a.dtype == DType::kF32) {
    static_cast<unsigned*>(a.values)[to] = index < 0 ? 0xFF800000u : static_cast<const unsigned*>(a.x)[from];
  } else {
    const unsigned short nothing = a.dtype == DType::kBf16 ? 0xFF80u : 0xFC00u;
    static_cast<unsigned short*>(a.values)[to] = index < 0 ? nothing : static_cast<const unsigned short*>(a.x)[from];
  }
}

// Of a CPU's kernels.
struct TopKConfig {
  static constexpr const char* kTypeName = "TopKConfig";
  DType x;

  bool operator==(const TopKConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
  }
};

// Of a GPU's. kNone: typed at run time.
struct TopKGpuConfig {
  static constexpr const char* kTypeName = "TopKGpuConfig";
  DType x;
  bool few;  // top_k_few()

  bool operator==(const TopKGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("few", self.few);
  }
};

inline constexpr int kTopKChunk = 2 * kSelectThreads * kRowPiece;
// Few best of not too many chunks are chosen in another way (top_k_few.cuh) than many.
inline constexpr int kMostFew = 128;
constexpr bool top_k_few(int k, long long chunks) { return k <= kMostFew && chunks <= 32; }
// Shared memory: behind what a choice takes, keys that are put in order, and of many best bins of their values, and what reaches a row's bound.
inline constexpr int kMostOrdered = 2 * kMostTopK, kOrderBins = 1024, kMostReaching = 6 * kSelectThreads;
constexpr int top_k_shared_bytes(bool few) {
  return kSelectSharedBytes + (few ? kMostFew * 8 : kMostOrdered * 8 + kOrderBins * 4 + kMostReaching * 4);
}
// Places for keys of the best few of each chunk, in any order: as many as tokens of a chunk come into question, with zeros behind: lanes of a
// warp, an odd number of times, so that warps which go round all lists have as many of them.
constexpr int top_k_places(int k) { return kRowLanes * (k <= 8 ? 1 : (k + 23) / 24 * 2 + 1); }
// Groups of a chunk's elements, of two to the power of this many pieces, whose largest tell what the best k of a row of so many chunks reach:
// four to eight times k groups of a row where there are so many. -1 where there are less than two times k: then all of the row is read for each
// question.
inline constexpr int kChunkBits = 10, kChunkPieces = 1 << kChunkBits;
static_assert(kChunkPieces * kRowPiece == kTopKChunk);
constexpr int top_k_group_bits(int k, long long chunks) {
  if (chunks <= 1 || chunks * kChunkPieces < 2 * k) return -1;
  int bits = 0;
  while (kChunkPieces >> bits > kSelectThreads / kRowLanes && chunks * (kChunkPieces >> bits) >= 8 * k) ++bits;
  return bits;
}
// Groups of a row of at most so many chunks.
constexpr long long top_k_most_groups(int k, long long chunks) {
  if (top_k_few(k, chunks) || top_k_group_bits(k, chunks) < 0) return 0;
  const long long least = chunks * (kSelectThreads / kRowLanes), most = 8 * k;
  return least > most ? least : most;
}
constexpr long long top_k_workspace_bytes(long long rows, long long chunks, int k) {
  return rows * (top_k_few(k, chunks) ? chunks * top_k_places(k) * 8 : top_k_most_groups(k, chunks) * 4);
}

}  // namespace tilewright
