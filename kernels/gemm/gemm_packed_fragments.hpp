// SPDX-License-Identifier: MIT
// Packed e2m1 for NVIDIA GPUs: the fragments of wgmma's first operand as gemm_sm90_dequant takes them, so that a warp reads a piece of
// memory in a row and no thread wants what another one has. Freestanding.
//
//   [ceil(N/64)] [ceil(K/128)] [4] [2] [8] [4] [4]  words of 32 bits:
//   64 columns, 128 of K: sixteen columns, the upper and the lower eight, a column, a quarter of the K, its words of eight k
//
// Where in a word its eight values have their bits: fragment_bits. Padding is zero bits. They begin a line of 128 bytes if what they
// are packed into does: behind the header stand as many zeros.
#pragma once

#include "gemm/gemm_packed_layout.hpp"
#include "tile/common/narrow_weights.hpp"

namespace tilewright {

inline constexpr int kFragmentK = 128, kFragmentBytes = 1024;                   // of sixteen columns
inline constexpr int kFragmentWords = kFragmentBytes / 4, kFragmentGroup = 64;  // columns side by side
inline constexpr int kFragmentsAside = kFragmentGroup / kPanelColumns;
inline constexpr int kPackFragmentsThreads = 256;  // of a block of gemm_pack_fragments
inline constexpr int64 kPackedFragmentsAt = 128;   // from the header on

constexpr int64 packed_fragments(int64 k) { return (k + kFragmentK - 1) / kFragmentK; }
constexpr int64 packed_fragment_groups(int64 n) { return (n + kFragmentGroup - 1) / kFragmentGroup; }
// Of 64 columns; of an entry of the batch.
constexpr int64 packed_fragments_group_bytes(int64 k) { return packed_fragments(k) * kFragmentsAside * kFragmentBytes; }
constexpr int64 packed_fragments_bytes(int64 n, int64 k) {
  return packed_fragment_groups(n) * packed_fragments_group_bytes(k);
}

// The fragment with element [k, n] of an entry of the batch, whose K is `all_k`.
constexpr int64 fragment_index(int64 all_k, int64 k, int64 n) {
  return (n / kFragmentGroup * packed_fragments(all_k) + k / kFragmentK) * kFragmentsAside +
         n % kFragmentGroup / kPanelColumns;
}
// The word that has it, as value k % 8.
constexpr int64 fragment_word(int64 all_k, int64 k, int64 n) {
  const int64 half = n % kPanelColumns / 8, thread = n % 8 * 4 + k % kFragmentK / 32;
  return fragment_index(all_k, k, n) * kFragmentWords + (half * 32 + thread) * 4 + k % 32 / 8;
}

}  // namespace tilewright
