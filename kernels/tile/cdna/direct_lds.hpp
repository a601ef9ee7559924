// SPDX-License-Identifier: MIT
// Global memory straight to LDS on CDNA4: each lane's 16 bytes, or 4, land behind those of the lane before it, at a wait that the
// kernel writes itself. Source: CDNA4 ISA reference, "Memory Buffer Load to LDS" (LDS address = M0 + instruction offset +
// lane * size; what lies outside of the buffer is zero).
#pragma once

#include "tile/amd/memory.hpp"

namespace tilewright {

// One instruction of the wave: its lanes' bytes at `base` + `offset` go to `to` and on, which is the same for all lanes.
template <int kBytes = 16>
__device__ __forceinline__ void copy_to_lds(const char* base, unsigned offset, Lds to) {
#if defined(TILEWRIGHT_EMULATED_TARGET)
  __builtin_amdgcn_raw_ptr_buffer_load_lds(window(base), to, kBytes, static_cast<int>(offset), 0, 0, 0);
#else
  // The compiler would wait for all such copies before it reads LDS: it cannot tell the stages apart.
  const auto address = reinterpret_cast<unsigned long long>(base);
  const VectorOf<unsigned, 4> resource{static_cast<unsigned>(address), static_cast<unsigned>(address >> 32),
                                       0x7FFFFFFFu, 0x00027000u};
  const unsigned m0 = __builtin_amdgcn_readfirstlane((unsigned)to);
  if constexpr (kBytes == 16) {
    asm volatile("s_mov_b32 m0, %0\n\tbuffer_load_dwordx4 %1, %2, 0 offen lds" ::"s"(m0), "v"(offset), "s"(resource)
                 : "m0", "memory");
  } else {
    static_assert(kBytes == 4);
    asm volatile("s_mov_b32 m0, %0\n\tbuffer_load_dword %1, %2, 0 offen lds" ::"s"(m0), "v"(offset), "s"(resource)
                 : "m0", "memory");
  }
#endif
}

// Until no more than `kLeft` of this wave's copies are on their way.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  static_assert(kLeft < 64);
  constexpr int kOtherCounters = 0x0F70;  // of LDS, exports: not waited for
  __builtin_amdgcn_s_waitcnt(kOtherCounters | (kLeft & 15) | (kLeft >> 4) << 14);
  asm volatile("" ::: "memory");
}

}  // namespace tilewright
