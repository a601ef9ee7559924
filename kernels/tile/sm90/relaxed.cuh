// SPDX-License-Identifier: MIT
// Words that blocks of one kernel exchange through memory. Nothing is ordered: a reader sees each word of 32 bits as it
// was or as it is.
#pragma once

namespace tilewright::sm90 {

__device__ __forceinline__ void store_relaxed(uint4* to, uint4 v) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ __forceinline__ uint4 load_relaxed(const uint4* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

}  // namespace tilewright::sm90
