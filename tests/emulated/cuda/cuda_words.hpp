// SPDX-License-Identifier: MIT
// The words of CUDA C++ that kernels use, for a host compiler: include this before a kernel. One thread of a block runs at
// a time (host_block.hpp); the primitives of kernels/tile/portable have twins beside this file.
#pragma once

#include <cmath>
#include <cstring>

#include "emulated/cuda/host_block.hpp"

#define __device__
#define __forceinline__ inline

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
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

inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline float __ll2float_rn(long long value) { return static_cast<float>(value); }
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
