// SPDX-License-Identifier: MIT
// What host and top_k's kernels share: the argument struct, the config, where the workspace's parts lie. Freestanding.
#pragma once

#include "tile/common/token_order.hpp"

namespace tilewright {

// Steps of a GPU's kernel: the best of each chunk of a row, the best of these.
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
  char* workspace;
  long long chunks, grid;  // GPU: chunks of a row, blocks
  int k, places;           // GPU: of a chunk's list
  DType dtype;             // of x
  TopKStep step;
  bool few;  // GPU: top_k_few()
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

// kNone: typed at run time.
struct TopKConfig {
  static constexpr const char* kTypeName = "TopKConfig";
  DType x;

  bool operator==(const TopKConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
  }
};

inline constexpr int kTopKChunk = 2 * kSelectThreads * kRowPiece;
inline constexpr int kTopKSharedBytes = kSelectSharedBytes + kMostTopK * 8;
// Few best of not too many chunks are chosen in another way (top_k_few.cuh).
constexpr bool top_k_few(int k, long long chunks) { return k <= 128 && chunks <= 32; }
// Places for keys of the best of each chunk, in any order. Of many best there are k; of few as many as tokens of a chunk come into question,
// with zeros behind: lanes of a warp, an odd number of times, so that warps which go round all lists have as many of them.
constexpr int top_k_places(int k, long long chunks) {
  if (!top_k_few(k, chunks)) return k;
  return kRowLanes * (k <= 8 ? 1 : (k + 23) / 24 * 2 + 1);
}

}  // namespace tilewright
