// SPDX-License-Identifier: MIT
// Packs weights of 4 bits on an NVIDIA GPU, in the layout of gemm_packed_fragments.hpp: a block makes sixteen columns of an entry of the batch.
#pragma once

#include "gemm/gemm_packed_fragments.hpp"
#include "tile/gpu/block.hpp"

namespace tilewright {

// A word of a fragment that begins at k, those of its values that are there; `column`: the first element of its column.
template <DType kWeight>
__device__ __forceinline__ unsigned pack_fragment_word(const GemmPackArgs& args, int64 column, int64 k, int quarter,
                                                       int word) {
  const auto* const b = static_cast<const unsigned char*>(args.b);
  unsigned bits = 0;
#pragma unroll
  for (int value = 0; value < 8; ++value) {
    const int64 row = k + fragment_k(kWeight, {quarter, word, value});
    if (row >= args.k) continue;
    const int64 element = column + row * args.stride_b_k;
    bits |= fragment_bits(kWeight, value, b[element >> 1] >> (element & 1) * 4 & 15u);
  }
  return bits;
}

template <DType kWeight>
__device__ __forceinline__ void gemm_pack_fragments_of(const GemmPackArgs& args) {
  const int64 panels = packed_fragment_groups(args.n) * kFragmentsAside, panel = blockIdx.x % panels,
              batch = blockIdx.x / panels;
  const int64 count = packed_fragments(args.k) * (kFragmentBytes / 16);
  char* const entry = static_cast<char*>(args.packed) + batch * args.packed_batch_bytes;
  // A thread of a fragment has sixteen bytes in either half.
#pragma unroll 1
  for (int64 i = threadIdx.x; i < count; i += kPackFragmentsThreads) {
    const auto place = static_cast<int>(i % 64);
    const int64 n = panel * kPanelColumns + place / 32 * 8 + place % 32 / 4, k = i / 64 * kFragmentK;
    unsigned words[4] = {};
    if (n < args.n) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        words[word] =
            pack_fragment_word<kWeight>(args, batch * args.stride_b_batch + n * args.stride_b_n, k, place % 4, word);
      }
    }
    auto* const to = reinterpret_cast<uint4*>(entry + fragment_index(args.k, k, n) * kFragmentBytes);
    to[place] = {words[0], words[1], words[2], words[3]};
  }
}

// i4 and u4 have the same codes.
__device__ __forceinline__ void gemm_pack_fragments(const GemmPackArgs& args) {
  if (args.dtype == DType::kF4E2M1) return gemm_pack_fragments_of<DType::kF4E2M1>(args);
  gemm_pack_fragments_of<DType::kU4>(args);
}

}  // namespace tilewright
