// SPDX-License-Identifier: MIT
// CUDA's words, as far as kernels for GPUs of every vendor use them, in clang's builtins for AMD GPUs; and the few that
// differ between the hardware and its emulation. An instance is TILEWRIGHT_KERNEL(entry, threads, waves of a SIMD)(arguments)
// {...} TILEWRIGHT_KERNEL_ENTRY(entry).
#pragma once

#if defined(TILEWRIGHT_EMULATED_TARGET)
#define TILEWRIGHT_LDS  // pointers have no address spaces there
#define TILEWRIGHT_KERNEL(entry, threads, waves) static void entry##_of_lane
#define TILEWRIGHT_KERNEL_ENTRY(entry) TILEWRIGHT_EMULATED_ENTRY(entry, entry##_of_lane)
#else
#define TILEWRIGHT_LDS __attribute__((address_space(3)))
#define TILEWRIGHT_DYNAMIC_LDS(name) extern __shared__ __attribute__((aligned(128))) unsigned char name[]
#define TILEWRIGHT_KERNEL(entry, threads, waves) extern "C" __global__ void __launch_bounds__(threads, waves) entry
#define TILEWRIGHT_KERNEL_ENTRY(entry)
#endif

namespace tilewright {

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// threadIdx.x and blockIdx.x. Grids and blocks have one dimension.
struct ThreadIndex {
  __device__ __forceinline__ operator unsigned() const { return __builtin_amdgcn_workitem_id_x(); }
};
struct BlockIndex {
  __device__ __forceinline__ operator unsigned() const { return __builtin_amdgcn_workgroup_id_x(); }
};
inline constexpr struct {
  ThreadIndex x;
} threadIdx{};
inline constexpr struct {
  BlockIndex x;
} blockIdx{};

__device__ __forceinline__ void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ __forceinline__ unsigned char* dynamic_shared() {
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  return (unsigned char*)bytes;
}

// The kernel's only argument, read again from where it lies: what was read before need not stay in scalar registers.
template <class Args>
__device__ __forceinline__ const Args& read_again(const Args& args) {
#if defined(TILEWRIGHT_EMULATED_TARGET)
  return args;
#else
  auto* segment = (const __attribute__((address_space(4))) Args*)__builtin_amdgcn_kernarg_segment_ptr();
  asm volatile("" : "+s"(segment));
  return *(const Args*)segment;
#endif
}

// The value, as if nobody knew it: what follows from it is computed again rather than kept in registers. So masks of lanes, a pair
// of scalar registers each, and offsets do not live through a loop.
__device__ __forceinline__ int anew(int x) {
#if !defined(TILEWRIGHT_EMULATED_TARGET)
  asm volatile("" : "+v"(x));
#endif
  return x;
}

// Contraction is off (src/jit/amdgcn): these round once for each operation, as their names say.
__device__ __forceinline__ float __fadd_rn(float x, float y) { return x + y; }
__device__ __forceinline__ float __fmul_rn(float x, float y) { return x * y; }
__device__ __forceinline__ float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__device__ __forceinline__ float __int2float_rn(int x) { return static_cast<float>(x); }
__device__ __forceinline__ float __ll2float_rn(long long x) { return static_cast<float>(x); }
__device__ __forceinline__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__device__ __forceinline__ float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__device__ __forceinline__ float fminf(float x, float y) { return __builtin_fminf(x, y); }
__device__ __forceinline__ float fabsf(float x) { return __builtin_fabsf(x); }
__device__ __forceinline__ float copysignf(float x, float sign) { return __builtin_copysignf(x, sign); }

}  // namespace tilewright
