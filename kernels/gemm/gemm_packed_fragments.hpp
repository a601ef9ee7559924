// SPDX-License-Identifier: MIT
// Packed e2m1 for NVIDIA GPUs: the fragments of wgmma's first operand as gemm_sm90_dequant takes them, so that a warp reads a piece of
// memory in a row and no thread wants what another one has. As large as the panels of gemm_packed_layout.hpp. Freestanding.
//
//   [ceil(N/64)] [ceil(K/128)] [4] [2] [8] [4] [4]  words of 32 bits:
//   64 columns, 128 of K: sixteen columns, the upper and the lower eight, a column, a quarter of the K, its words of eight k
//   of the last 64 columns only those sixteens that are there
//
// Where in a word its eight values have their bits: fragment_bits. Padding is zero bits.
#pragma once

#include "gemm/gemm_packed_layout.hpp"
#include "tile/common/narrow_weights.hpp"

namespace tilewright {

inline constexpr int kFragmentK = 128, kFragmentBytes = 1024;                   // of sixteen columns
inline constexpr int kFragmentWords = kFragmentBytes / 4, kFragmentGroup = 64;  // columns side by side
inline constexpr int kPackFragmentsThreads = 256;                               // of a block of gemm_pack_fragments
inline constexpr int kPanelsAside = kFragmentGroup / kPanelColumns;

constexpr int64 packed_fragments(int64 k) { return (k + kFragmentK - 1) / kFragmentK; }
static_assert(packed_layout(DType::kF4E2M1, 17, 129).batch_bytes == 2 * packed_fragments(129) * kFragmentBytes);

// Sixteens of the 64 columns from `n` on, a multiple of 64.
constexpr int64 fragments_aside(int64 all_n, int64 n) {
  const int64 left = packed_panels(all_n) - n / kPanelColumns;
  return left < kPanelsAside ? left : kPanelsAside;
}
// The fragment with element [k, n] of an entry of the batch [all_k, all_n].
constexpr int64 fragment_index(int64 all_n, int64 all_k, int64 k, int64 n) {
  const int64 first = n / kFragmentGroup * kFragmentGroup;
  return first / kPanelColumns * packed_fragments(all_k) + k / kFragmentK * fragments_aside(all_n, first) +
         n % kFragmentGroup / kPanelColumns;
}
// The word that has it, as value k % 8.
constexpr int64 fragment_word(int64 all_n, int64 all_k, int64 k, int64 n) {
  const int64 fragment = fragment_index(all_n, all_k, k, n);
  const int64 half = n % kPanelColumns / 8, thread = n % 8 * 4 + k % kFragmentK / 32;
  return fragment * kFragmentWords + (half * 32 + thread) * 4 + k % 32 / 8;
}

}  // namespace tilewright
