// SPDX-License-Identifier: MIT
// AMX tiles: eight registers of 16 rows x 64 bytes. Without the instructions (or with TILEWRIGHT_AMX_TWIN) the same
// functions run on ordinary memory with the same results bit for bit, so that AMX kernels are tested on any CPU.
//
// The process must have asked Linux for permission (arch_prctl(ARCH_REQ_XCOMP_PERM, 18)) before the first tile is used.
#pragma once

#include "tile/cpu/dot.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;
inline constexpr int kTileBytes = kTileRows * kTileRowBytes;

// All eight tiles at full size, from construction to destruction. Kernels pad rows instead of shrinking tiles: a
// reconfiguration zeroes every tile and costs more than it saves.
class AmxTiles {
 public:
#if TILEWRIGHT_AMX
  TILEWRIGHT_INLINE AmxTiles() {
    alignas(64) unsigned char config[64] = {1};  // palette 1
    for (int i = 0; i < 8; ++i) {
      config[16 + 2 * i] = kTileRowBytes;
      config[48 + i] = kTileRows;
    }
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  TILEWRIGHT_INLINE ~AmxTiles() { asm volatile("tilerelease"); }

  template <int kTile>
  TILEWRIGHT_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  // Rows of 64 bytes, `stride` bytes apart.
  template <int kTile>
  TILEWRIGHT_INLINE void load(const void* p, long stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  // The same past the first level of cache: what streams through does not evict what stays, and the second level delivers
  // more bytes a cycle.
  template <int kTile>
  TILEWRIGHT_INLINE void stream(const void* p, long stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  TILEWRIGHT_INLINE void store(void* p, long stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  // acc[m][n] += sum_k a[m][k] b[k][n]; a: rows of 32 bf16, b: 16 lines of [16 n][2 k].
  template <int kAcc, int kA, int kB>
  TILEWRIGHT_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kAcc), "i"(kA), "i"(kB));
  }
  // a: rows of 64 i8, b: 16 lines of [16 n][4 k].
  template <int kAcc, int kA, int kB>
  TILEWRIGHT_INLINE void dot_i8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kAcc), "i"(kA), "i"(kB));
  }
#else
  template <int kTile>
  void zero() {
    __builtin_memset(tile_[kTile], 0, kTileBytes);
  }
  template <int kTile>
  void load(const void* p, long stride) {
    for (int row = 0; row < kTileRows; ++row) {
      __builtin_memcpy(tile_[kTile][row], static_cast<const char*>(p) + row * stride, kTileRowBytes);
    }
  }
  template <int kTile>
  void stream(const void* p, long stride) {
    load<kTile>(p, stride);
  }
  template <int kTile>
  void store(void* p, long stride) {
    for (int row = 0; row < kTileRows; ++row) {
      __builtin_memcpy(static_cast<char*>(p) + row * stride, tile_[kTile][row], kTileRowBytes);
    }
  }
  // The even and the odd k of the tile are summed apart from zero, then added to each other, then to the accumulator;
  // subnormals are zero everywhere.
  template <int kAcc, int kA, int kB>
  void dot_bf16() {
    const I32x16 high = I32x16::splat(static_cast<int>(0xFFFF0000u));
    for (int m = 0; m < kTileRows; ++m) {
      F32x16 even = F32x16::splat(0), odd = F32x16::splat(0);
      for (int k = 0; k < kTileRows; ++k) {
        unsigned pair;
        __builtin_memcpy(&pair, &tile_[kA][m][4 * k], 4);
        const I32x16 a = I32x16::splat(static_cast<int>(pair));
        const I32x16 b = I32x16::load(tile_[kB][k]);
        even = flush(fma(flush(as_float(shift_left<16>(a))), flush(as_float(shift_left<16>(b))), even));
        odd = flush(fma(flush(as_float(a & high)), flush(as_float(b & high)), odd));
      }
      const F32x16 acc = flush(F32x16::load(tile_[kAcc][m]));
      flush(acc + flush(even + odd)).store(tile_[kAcc][m]);
    }
  }
  template <int kAcc, int kA, int kB>
  void dot_i8() {
    for (int m = 0; m < kTileRows; ++m) {
      unsigned sum[16];
      __builtin_memcpy(sum, tile_[kAcc][m], sizeof(sum));
      for (int k = 0; k < kTileRows; ++k) {
        for (int i = 0; i < 64; ++i) {
          const int left = static_cast<signed char>(tile_[kA][m][4 * k + i % 4]);
          const int right = static_cast<signed char>(tile_[kB][k][i]);
          sum[i / 4] += static_cast<unsigned>(left * right);
        }
      }
      __builtin_memcpy(tile_[kAcc][m], sum, sizeof(sum));
    }
  }

 private:
  alignas(64) unsigned char tile_[8][kTileRows][kTileRowBytes];
#endif
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
