// SPDX-License-Identifier: MIT
// The words of CUDA C++ that kernels use, for a host compiler: include this before a kernel. One thread of a block runs at
// a time (host_block.hpp); the primitives of kernels/tile/portable have twins beside this file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulated/cuda/host_block.hpp"

#define __device__
#define __forceinline__ inline
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct int4 {
  int x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};

inline tilewright::emulated::Index& threadIdx = tilewright::emulated::thread_index;
inline tilewright::emulated::Index& blockIdx = tilewright::emulated::block_index;
inline tilewright::emulated::Index& gridDim = tilewright::emulated::grid_size;
inline void __syncthreads() { tilewright::emulated::wait_for_block(); }

inline void __syncwarp() {
  tilewright::emulated::meet_warp([](tilewright::emulated::WarpRows&) {});
}
// The words of all lanes, and what `choose` makes of them.
template <class T, class Choose>
auto exchange_in_warp(T own, const Choose& choose) {
  static_assert(sizeof(T) <= 8);
  const auto lane = static_cast<size_t>(tilewright::emulated::lane());
  std::memcpy(&tilewright::emulated::warp_rows()[lane][0], &own, sizeof(T));
  // Twice: nobody writes the next ones before all have read these.
  __syncwarp();
  const auto chosen = choose([](size_t l) {
    T value;
    std::memcpy(&value, &tilewright::emulated::warp_rows()[l][0], sizeof(T));
    return value;
  });
  __syncwarp();
  return chosen;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return exchange_in_warp(value, [lane](const auto& of) { return of(static_cast<size_t>(lane)); });
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  const int from = tilewright::emulated::lane() - distance;
  return exchange_in_warp(value, [&](const auto& of) { return from < 0 ? value : of(static_cast<size_t>(from)); });
}
inline unsigned __ballot_sync(unsigned, bool holds) {
  return exchange_in_warp(holds, [](const auto& of) {
    unsigned mask = 0;
    for (size_t l = 0; l < 32; ++l) mask |= unsigned{of(l)} << l;
    return mask;
  });
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return exchange_in_warp(
      value, [mask](const auto& of) { return of(static_cast<size_t>(tilewright::emulated::lane() ^ mask)); });
}
inline int __all_sync(unsigned, bool holds) { return __ballot_sync(0, holds) == 0xFFFFFFFF ? 1 : 0; }
inline int __any_sync(unsigned, bool holds) { return __ballot_sync(0, holds) != 0 ? 1 : 0; }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* counter, unsigned more) {
  const unsigned old = *counter;
  *counter += more;
  return old;
}
inline unsigned atomicOr(unsigned* word, unsigned bits) {
  const unsigned old = *word;
  *word |= bits;
  return old;
}
inline unsigned atomicInc(unsigned* counter, unsigned last) {
  const unsigned old = *counter;
  *counter = old >= last ? 0 : old + 1;
  return old;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
inline void __nanosleep(unsigned) {}
inline unsigned atomicExch(unsigned* counter, unsigned value) {
  const unsigned old = *counter;
  *counter = value;
  return old;
}
using std::max;
using std::min;

inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline float __ll2float_rn(long long value) { return static_cast<float>(value); }
// Byte i of the result is the byte of y:x that nibble i of `select` names.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned select) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned chosen = 0;
  for (unsigned i = 0; i < 4; ++i) chosen |= static_cast<unsigned>(bytes >> 8 * (select >> 4 * i & 7) & 0xFF) << 8 * i;
  return chosen;
}
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
