// SPDX-License-Identifier: MIT
// Asynchronous copies from global to shared memory (cp.async), in groups that are waited for in order.
#pragma once

namespace tilewright {

// The 32-bit address that instructions on shared memory take.
__device__ __forceinline__ unsigned shared_address(const void* data) {
  return static_cast<unsigned>(__cvta_generic_to_shared(data));
}
// A kernel's dynamic shared memory, aligned to 128 bytes.
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return dynamic_shared_bytes;
}

// kBytes to `to`, both aligned to kBytes: the first `valid` from `from`, the rest zero. With valid = 0 nothing is read.
// 16 bytes go past the first level of cache.
template <int kBytes>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int valid) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(valid)
                 : "memory");
  }
}

// Ends a group: all copies of this thread since the last one.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kPending of this thread's groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four floats from shared memory, aligned to 16 bytes; a word to it.
__device__ __forceinline__ void load_shared(float (&v)[4], unsigned from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void store_shared(unsigned to, unsigned word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

}  // namespace tilewright
