// SPDX-License-Identifier: MIT
// The words of HIP's language that a kernel needs, for clang without ROCm's headers. The compiler of AMD kernels puts it
// in front of every instance (src/jit/amdgcn); work-item ids and the like are clang's __builtin_amdgcn_*.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
// Arguments of a kernel lie in constant memory anyhow.
#define __grid_constant__
// The largest workgroup, and the waves of one SIMD that registers must leave room for.
#define TILEWRIGHT_LAUNCH_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define TILEWRIGHT_LAUNCH_BOUNDS_2(threads, waves) \
  TILEWRIGHT_LAUNCH_BOUNDS_1(threads) __attribute__((amdgpu_waves_per_eu(waves)))
#define TILEWRIGHT_LAUNCH_BOUNDS(one, two, chosen, ...) chosen
#define __launch_bounds__(...) \
  TILEWRIGHT_LAUNCH_BOUNDS(__VA_ARGS__, TILEWRIGHT_LAUNCH_BOUNDS_2, TILEWRIGHT_LAUNCH_BOUNDS_1, )(__VA_ARGS__)

// Functions of freestanding headers need no __device__: from here on to the end of the unit, every function has it.
#pragma clang force_cuda_host_device begin
