// SPDX-License-Identifier: MIT
// Reads and copies memory as fast as a GPU can: what bandwidths are compared with.
#pragma once

#include "tile/common/probe_args.hpp"

namespace tilewright::portable {

// A block takes tiles of kInFlight words a thread, which are all under way at a time; blocks take neighbouring tiles.
template <int kInFlight>
__device__ __forceinline__ void read_all(const ReadProbeArgs& args) {
  const uint4* const data = static_cast<const uint4*>(args.data);
  const long long tile = static_cast<long long>(blockDim.x) * kInFlight, tiles = args.words / tile;
  unsigned bits = 0;
  for (long long t = blockIdx.x; t < tiles; t += gridDim.x) {
    const uint4* const from = data + t * tile + threadIdx.x;
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) words[i] = __ldcs(from + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) bits |= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
  }
  if (blockIdx.x == 0) {
    for (long long at = tiles * tile + threadIdx.x; at < args.words; at += blockDim.x) bits |= data[at].x;
  }
  // The buffer is filled with one byte, so its words' exclusive or is 0.
  if (bits != 0 && bits == 0x5AFE5AFE) *args.sink = bits;
}

// The same for a copy: all reads of a thread's turn stand before its writes.
template <int kInFlight>
__device__ __forceinline__ void copy_all(const CopyProbeArgs& args) {
  const uint4* const from = static_cast<const uint4*>(args.from);
  uint4* const to = static_cast<uint4*>(args.to);
  const long long tile = static_cast<long long>(blockDim.x) * kInFlight, tiles = args.words / tile;
  for (long long t = blockIdx.x; t < tiles; t += gridDim.x) {
    const long long at = t * tile + threadIdx.x;
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) words[i] = __ldcs(from + at + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) __stcs(to + at + i * blockDim.x, words[i]);
  }
  if (blockIdx.x == 0) {
    for (long long at = tiles * tile + threadIdx.x; at < args.words; at += blockDim.x) to[at] = from[at];
  }
}

}  // namespace tilewright::portable
