// SPDX-License-Identifier: MIT
// Shared memory of sm_90 as instructions see it: addresses, the swizzle of the copy engine, fragments to memory.
#pragma once

namespace tilewright::sm90 {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// A counter in global memory that blocks of the grid meet at.
// One more, or from `last` on to zero.
__device__ __forceinline__ void count_release(unsigned* counter, unsigned last) {
  asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(counter), "r"(last) : "memory");
}
__device__ __forceinline__ void count_relaxed(unsigned* counter, unsigned last) {
  asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(counter), "r"(last) : "memory");
}
__device__ __forceinline__ unsigned load_acquire(const unsigned* counter) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

// Where byte `offset` of a tile of 128-byte rows lies under the 128-byte swizzle: the 16-byte chunk's number is XORed with
// the row's number in its group of eight, so that eight rows' chunks of one column use all banks. The tile begins at a
// multiple of 1024 bytes. PTX ISA, "tensor swizzling modes".
__device__ __forceinline__ unsigned swizzle_128(unsigned offset) { return offset ^ ((offset >> 3) & 0x70); }

__device__ __forceinline__ uint4 load_words(unsigned address) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// Four 8 x 8 matrices of 16-bit elements: thread t holds row t / 4, columns 2 (t % 4) of each; `address` of thread t is row
// t % 8 of matrix t / 8.
__device__ __forceinline__ void store_matrix_x4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}
// The same, transposed: thread t holds column t / 4, rows 2 (t % 4) of each.
__device__ __forceinline__ void store_matrix_x4_transposed(unsigned address, unsigned r0, unsigned r1, unsigned r2,
                                                           unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
}  // namespace tilewright::sm90
