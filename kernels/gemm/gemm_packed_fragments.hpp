// SPDX-License-Identifier: MIT
// Packed weights of 4 bits for NVIDIA GPUs: the fragments of wgmma's first operand as gemm_sm90_dequant takes them, so that a warp reads a piece of
// memory in a row and no thread wants what another one has. Freestanding.
//
//   [ceil(N/64)] [ceil(K/128)] [4] [2] [8] [4] [4]  words of 32 bits:
//   64 columns, 128 of K: sixteen columns, the upper and the lower eight, a column, a thread of the four that share it, its words
//
// Which of the K a word has: fragment_place; where in it its eight values have their bits: fragment_bits. Padding is zero bits. They
// begin a line of 128 bytes if what they are packed into does: behind the header stand as many zeros.
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
// Of a fragment's K: which of a column's four threads has it, in which of its words, as which value. e2m1 takes a scale of 32 along, so
// that a thread has 32 in a row; integers have an instruction's own order, and A stays as it lies.
struct FragmentPlace {
  int quarter, word, value;
};
constexpr bool fragments_in_order(DType weight) { return is_nibble_integer(weight); }
constexpr FragmentPlace fragment_place(DType weight, int k) {
  if (fragments_in_order(weight)) return {k % 8 / 2, k / 32, k % 32 / 8 + k % 2 * 4};
  return {k / 32, k % 32 / 8, k % 8};
}
constexpr int fragment_k(DType weight, const FragmentPlace& at) {
  if (fragments_in_order(weight)) return at.word * 32 + at.value % 4 * 8 + at.quarter * 2 + at.value / 4;
  return at.quarter * 32 + at.word * 8 + at.value;
}
// The word that has element [k, n].
constexpr int64 fragment_word(DType weight, int64 all_k, int64 k, int64 n) {
  const FragmentPlace at = fragment_place(weight, static_cast<int>(k % kFragmentK));
  const int64 half = n % kPanelColumns / 8, thread = n % 8 * 4 + at.quarter;
  return fragment_index(all_k, k, n) * kFragmentWords + (half * 32 + thread) * 4 + at.word;
}
// Its code in that word, and the bits that the code takes there.
constexpr unsigned fragment_code(DType weight, int64 k, unsigned word) {
  const int value = fragment_place(weight, static_cast<int>(k % kFragmentK)).value;
  return fragments_in_order(weight) ? word >> 4 * value & 15 : e2m1_fragment_code(value, word);
}
constexpr unsigned fragment_bits(DType weight, int value, unsigned code) {
  return fragments_in_order(weight) ? code << 4 * value : e2m1_fragment_bits(value, code);
}

}  // namespace tilewright
