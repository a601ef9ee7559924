// SPDX-License-Identifier: MIT
// Loads of 16 bytes past the first level of cache or through it, with zeros where nothing is to be read.
#pragma once

namespace tilewright {

// What is read once, by one block, and written by no kernel in front. kAlways: `there` is not looked at.
template <bool kAlways>
__device__ __forceinline__ uint4 load_stream(const char* from, bool there) {
  uint4 v;
  if constexpr (kAlways) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
  } else {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.u32 p, %5, 0;\n"
        "mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
        "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from), "r"(static_cast<unsigned>(there)));
  }
  return v;
}
// The same of 4, 8 or 16 bytes.
template <bool kAlways, int kWords>
__device__ __forceinline__ void load_stream_words(unsigned (&words)[kWords], const char* from, bool there) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 4) {
    const uint4 v = load_stream<kAlways>(from, there);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = 0;
    if (!kAlways && !there) return;
    if constexpr (kWords == 2) {
      asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words[0]), "=r"(words[1])
                   : "l"(from));
    } else {
      asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(words[0]) : "l"(from));
    }
  }
}
// What several blocks read and the kernel in front may have written.
__device__ __forceinline__ uint4 load_cached(const char* from, bool there) {
  uint4 v;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %5, 0;\n"
      "mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from), "r"(static_cast<unsigned>(there)));
  return v;
}

}  // namespace tilewright
