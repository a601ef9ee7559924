// SPDX-License-Identifier: MIT
// Global memory through buffer resources, and LDS, in pieces of 16 bytes. Sources: AMD CDNA3 ISA reference, "Buffer
// Addressing" and "Range Checking"; RDNA3 and RDNA4 ISA references, the same sections; the resource's words as LLVM's
// "User Guide for AMDGPU Backend" and Composable Kernel set them.
#pragma once

#include "tile/amd/words.hpp"

namespace tilewright {

// g++ loses the attribute of an alias whose size depends on the template's own.
template <class Element, int kCount>
struct VectorType {
  typedef Element Type __attribute__((vector_size(kCount * sizeof(Element))));
};
template <class Element, int kCount>
using VectorOf = typename VectorType<Element, kCount>::Type;

using Words2 = VectorOf<unsigned, 2>;
using Words4 = VectorOf<unsigned, 4>;

// An offset of what is not there: it reads as zero.
inline constexpr unsigned kOutside = 0x80000000u;

// 32-bit data, raw: 2 GiB from `base` on, which is the same for all lanes.
__device__ __forceinline__ __amdgpu_buffer_rsrc_t window(const char* base) {
#if defined(__GFX9__)
  constexpr int kFlags = 0x00027000;
#else
  constexpr int kFlags = 0x31004000;
#endif
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<char*>(base), 0, 0x7FFFFFFF, kFlags);
}
// At `base` + `offset` + `scalar`, aligned to 4 bytes; `scalar` is the same for all lanes.
__device__ __forceinline__ Words4 load_words4(const char* base, unsigned offset, int scalar = 0) {
  return __builtin_bit_cast(Words4,
                            __builtin_amdgcn_raw_buffer_load_b128(window(base), static_cast<int>(offset), scalar, 0));
}
__device__ __forceinline__ Words2 load_words2(const char* base, unsigned offset, int scalar = 0) {
  return __builtin_bit_cast(Words2,
                            __builtin_amdgcn_raw_buffer_load_b64(window(base), static_cast<int>(offset), scalar, 0));
}
__device__ __forceinline__ unsigned load_word(const char* base, unsigned offset, int scalar = 0) {
  return __builtin_amdgcn_raw_buffer_load_b32(window(base), static_cast<int>(offset), scalar, 0);
}
// One element, of its own alignment.
template <int kSize>
struct UnsignedOf;
template <>
struct UnsignedOf<4> {
  using Type = unsigned;
};
template <>
struct UnsignedOf<2> {
  using Type = unsigned short;
};
template <>
struct UnsignedOf<1> {
  using Type = unsigned char;
};
__device__ __forceinline__ void load_element(const char* base, unsigned offset, unsigned& element) {
  element = load_word(base, offset);
}
__device__ __forceinline__ void load_element(const char* base, unsigned offset, unsigned short& element) {
  element = __builtin_amdgcn_raw_buffer_load_b16(window(base), static_cast<int>(offset), 0, 0);
}
__device__ __forceinline__ void load_element(const char* base, unsigned offset, unsigned char& element) {
  element = __builtin_amdgcn_raw_buffer_load_b8(window(base), static_cast<int>(offset), 0, 0);
}

// The workgroup's LDS. Offsets are in bytes.
using Lds = TILEWRIGHT_LDS unsigned char*;

__device__ __forceinline__ Lds lds_memory() {
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  return (Lds)bytes;
}
__device__ __forceinline__ Words4 read_lds(Lds lds, unsigned offset) {
  return *(TILEWRIGHT_LDS const Words4*)(lds + offset);
}
__device__ __forceinline__ void write_lds(Lds lds, unsigned offset, Words4 words) {
  *(TILEWRIGHT_LDS Words4*)(lds + offset) = words;
}

// The compiler moves no instruction past it. Loads are waited for by how many were asked for after them: those that a
// loop has in flight stay there only if all ways into it ask for them in one order.
__device__ __forceinline__ void keep_order() { __builtin_amdgcn_sched_barrier(0); }

// What the lanes of a wave have written to LDS, its other lanes may read. Nothing waits.
__device__ __forceinline__ void join_wave() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

}  // namespace tilewright
