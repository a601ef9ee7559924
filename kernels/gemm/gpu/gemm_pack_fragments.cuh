// SPDX-License-Identifier: MIT
// Packs e2m1 on an NVIDIA GPU, in the layout of gemm_packed_fragments.hpp: a block makes sixteen columns of an entry of the batch.
#pragma once

#include "gemm/gemm_packed_fragments.hpp"
#include "tile/gpu/block.hpp"

namespace tilewright {

// Eight values along K of a column, those that are there; `at`: of the first one, in elements.
__device__ __forceinline__ unsigned pack_fragment_word(const GemmPackArgs& args, int64 at, int64 k) {
  const auto* const b = static_cast<const unsigned char*>(args.b);
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (k + i >= args.k) break;
    const int64 element = at + i * args.stride_b_k;
    word |= fragment_bits(i, b[element >> 1] >> (element & 1) * 4 & 15u);
  }
  return word;
}

__device__ __forceinline__ void gemm_pack_fragments(const GemmPackArgs& args) {
  const int64 panels = packed_fragment_groups(args.n) * kFragmentsAside, panel = blockIdx.x % panels,
              batch = blockIdx.x / panels;
  const int64 count = packed_fragments(args.k) * (kFragmentBytes / 16);
  char* const entry = static_cast<char*>(args.packed) + batch * args.packed_batch_bytes;
  // A thread of a fragment has sixteen bytes in either half.
#pragma unroll 1
  for (int64 i = threadIdx.x; i < count; i += kPackFragmentsThreads) {
    const auto place = static_cast<int>(i % 64);
    const int64 n = panel * kPanelColumns + place / 32 * 8 + place % 32 / 4, k = i / 64 * kFragmentK + place % 4 * 32;
    unsigned words[4] = {};
    if (n < args.n) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int64 first = k + word * 8;
        words[word] = pack_fragment_word(
            args, batch * args.stride_b_batch + n * args.stride_b_n + first * args.stride_b_k, first);
      }
    }
    auto* const to = reinterpret_cast<uint4*>(entry + fragment_index(args.k, k, n) * kFragmentBytes);
    to[place] = {words[0], words[1], words[2], words[3]};
  }
}

}  // namespace tilewright
