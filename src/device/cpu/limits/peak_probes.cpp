// SPDX-License-Identifier: MIT
// Each loop is the heart of a matrix product: a register tile of sums, and in every round new operands from the first
// level of cache, random ones. Operands that stay in registers or hold zeros draw less power, and a core that lowers its
// clock under load then shows a peak that no product can reach (docs/kernels/gemm_cpu.md has both figures).
#include "device/cpu/limits/peak_probes.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tilewright {

#if defined(__x86_64__)
namespace {

// Random operands: kSteps steps of two lines (B) and 16 units to broadcast (A), 32 bits each. A tile probe reads the same
// bytes as tiles. 24 KiB: they stay in the first level.
constexpr int kSteps = 128, kStepUnits = 48;

enum class Element { kF32, kBf16, kByte };

struct alignas(64) Operands {
  explicit Operands(Element element) {
    uint32_t state = 1;
    const auto random = [&state] { return state = state * 1664525u + 1013904223u; };
    for (uint32_t& unit : units) {
      switch (element) {
        case Element::kF32: {
          const float x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;  // -1 .. 1
          std::memcpy(&unit, &x, sizeof(x));
          break;
        }
        // Two of sign, exponent 2^-8 .. 2^-1, random mantissa.
        case Element::kBf16: unit = (random() >> 16 & 0x83FFu) * 0x10001u ^ 0x3C003C00u ^ (random() >> 25); break;
        case Element::kByte: unit = (random() & 0xFFFF0000u) | random() >> 16; break;
      }
    }
  }
  const uint32_t* step(int64_t round) const { return units + round % kSteps * kStepUnits; }
  uint32_t units[kSteps * kStepUnits];
};
const Operands& f32_operands() {
  static const Operands operands(Element::kF32);
  return operands;
}
const Operands& bf16_operands() {
  static const Operands operands(Element::kBf16);
  return operands;
}
const Operands& byte_operands() {
  static const Operands operands(Element::kByte);
  return operands;
}

// Integer sums wrap, and have their element type: g++ leaves arrays of __m256i and __m512i in memory.
using U32x8 = uint32_t __attribute__((vector_size(32)));
using U32x16 = uint32_t __attribute__((vector_size(64)));

// What a loop computes goes here, so that it cannot be left out.
thread_local volatile float sink;

// The register tiles: rows x two lines. Every loop over them is unrolled: a sum whose index is a variable lives in memory.
// Every sum goes into the result: one that does not is not computed. AVX2 has 16 registers, AVX-512 has 32.
constexpr int kRowsAvx2 = 6, kRowsAvx512 = 14;

__attribute__((target("avx2,fma"))) void fma_avx2(int64_t rounds) {
  const Operands& operands = f32_operands();
  __m256 sum[kRowsAvx2][2] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    const float* step = reinterpret_cast<const float*>(operands.step(round));
    const __m256 line0 = _mm256_load_ps(step), line1 = _mm256_load_ps(step + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kRowsAvx2; ++i) {
      const __m256 unit = _mm256_broadcast_ss(step + 32 + i);
      sum[i][0] = _mm256_fmadd_ps(unit, line0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(unit, line1, sum[i][1]);
    }
  }
  sum[0][0] = _mm256_add_ps(sum[0][0], sum[0][1]);
#pragma GCC unroll 6
  for (int i = 1; i < kRowsAvx2; ++i) {
    sum[0][0] = _mm256_add_ps(sum[0][0], _mm256_add_ps(sum[i][0], sum[i][1]));
  }
  sink = _mm256_cvtss_f32(sum[0][0]);
}

// 16-bit products of widened bytes, and an addition: what a kernel without byte dot products does.
__attribute__((target("avx2"))) void dot_i8_avx2(int64_t rounds) {
  const Operands& operands = byte_operands();
  U32x8 sum[kRowsAvx2][2] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    const uint32_t* step = operands.step(round);
    const __m256i line0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(step));
    const __m256i line1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(step + 8));
#pragma GCC unroll 6
    for (int i = 0; i < kRowsAvx2; ++i) {
      const __m256i unit = _mm256_set1_epi32(static_cast<int>(step[32 + i]));
      sum[i][0] += (U32x8)_mm256_madd_epi16(unit, line0);
      sum[i][1] += (U32x8)_mm256_madd_epi16(unit, line1);
    }
  }
  sum[0][0] += sum[0][1];
#pragma GCC unroll 6
  for (int i = 1; i < kRowsAvx2; ++i) {
    sum[0][0] += sum[i][0] + sum[i][1];
  }
  sink = static_cast<float>(sum[0][0][0]);
}

__attribute__((target("avx512f"))) void fma_avx512(int64_t rounds) {
  const Operands& operands = f32_operands();
  __m512 sum[kRowsAvx512][2] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    const float* step = reinterpret_cast<const float*>(operands.step(round));
    const __m512 line0 = _mm512_load_ps(step), line1 = _mm512_load_ps(step + 16);
#pragma GCC unroll 14
    for (int i = 0; i < kRowsAvx512; ++i) {
      const __m512 unit = _mm512_set1_ps(step[32 + i]);
      sum[i][0] = _mm512_fmadd_ps(unit, line0, sum[i][0]);
      sum[i][1] = _mm512_fmadd_ps(unit, line1, sum[i][1]);
    }
  }
  sum[0][0] = _mm512_add_ps(sum[0][0], sum[0][1]);
#pragma GCC unroll 14
  for (int i = 1; i < kRowsAvx512; ++i) {
    sum[0][0] = _mm512_add_ps(sum[0][0], _mm512_add_ps(sum[i][0], sum[i][1]));
  }
  sink = _mm512_cvtss_f32(sum[0][0]);
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) void dot_bf16(int64_t rounds) {
  const Operands& operands = bf16_operands();
  __m512 sum[kRowsAvx512][2] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    const uint32_t* step = operands.step(round);
    const __m512bh line0 = (__m512bh)_mm512_load_si512(step), line1 = (__m512bh)_mm512_load_si512(step + 16);
#pragma GCC unroll 14
    for (int i = 0; i < kRowsAvx512; ++i) {
      const __m512bh unit = (__m512bh)_mm512_set1_epi32(static_cast<int>(step[32 + i]));
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], unit, line0);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], unit, line1);
    }
  }
  sum[0][0] = _mm512_add_ps(sum[0][0], sum[0][1]);
#pragma GCC unroll 14
  for (int i = 1; i < kRowsAvx512; ++i) {
    sum[0][0] = _mm512_add_ps(sum[0][0], _mm512_add_ps(sum[i][0], sum[i][1]));
  }
  sink = _mm512_cvtss_f32(sum[0][0]);
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) void dot_i8_vnni(int64_t rounds) {
  const Operands& operands = byte_operands();
  U32x16 sum[kRowsAvx512][2] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    const uint32_t* step = operands.step(round);
    const __m512i line0 = _mm512_load_si512(step), line1 = _mm512_load_si512(step + 16);
#pragma GCC unroll 14
    for (int i = 0; i < kRowsAvx512; ++i) {
      const __m512i unit = _mm512_set1_epi32(static_cast<int>(step[32 + i]));
      sum[i][0] = (U32x16)_mm512_dpbusd_epi32((__m512i)sum[i][0], unit, line0);
      sum[i][1] = (U32x16)_mm512_dpbusd_epi32((__m512i)sum[i][1], unit, line1);
    }
  }
  sum[0][0] += sum[0][1];
#pragma GCC unroll 14
  for (int i = 1; i < kRowsAvx512; ++i) {
    sum[0][0] += sum[i][0] + sum[i][1];
  }
  sink = static_cast<float>(sum[0][0][0]);
}

// Palette 1: eight tiles of 16 rows of 64 bytes. Constants, because g++ 12 takes stores just before a tile instruction
// for dead: its intrinsics do not say that they read memory.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTileConfig;

// Tiles 0 .. 3 are sums, 4 and 5 from A, 6 and 7 from B: four products for four loads, as in a kernel.
constexpr int kTileProducts = 4, kTileUnits = 256, kTileSteps = kSteps * kStepUnits / kTileUnits / 4;

__attribute__((target("amx-tile"))) void begin_tiles() {
  _tile_loadconfig(&kTileConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

__attribute__((target("amx-tile,amx-bf16"))) void amx_bf16(int64_t rounds) {
  const Operands& operands = bf16_operands();
  begin_tiles();
  for (int64_t round = 0; round < rounds; ++round) {
    const uint32_t* step = operands.units + round % kTileSteps * 4 * kTileUnits;
    _tile_loadd(4, step, 64);
    _tile_loadd(6, step + kTileUnits, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, step + 2 * kTileUnits, 64);
    _tile_dpbf16ps(1, 5, 6);
    _tile_loadd(7, step + 3 * kTileUnits, 64);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-int8"))) void amx_i8(int64_t rounds) {
  const Operands& operands = byte_operands();
  begin_tiles();
  for (int64_t round = 0; round < rounds; ++round) {
    const uint32_t* step = operands.units + round % kTileSteps * 4 * kTileUnits;
    _tile_loadd(4, step, 64);
    _tile_loadd(6, step + kTileUnits, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(5, step + 2 * kTileUnits, 64);
    _tile_dpbssd(1, 5, 6);
    _tile_loadd(7, step + 3 * kTileUnits, 64);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
}

// A multiplication and an addition count as two operations.
constexpr PeakProbe kProbes[] = {
    {"fma_avx2", kRowsAvx2 * 2 * 8 * 2, fma_avx2},
    {"dot_i8_avx2", kRowsAvx2 * 2 * 16 * 2, dot_i8_avx2},
    {"fma_avx512", kRowsAvx512 * 2 * 16 * 2, fma_avx512},
    {"dot_bf16", kRowsAvx512 * 2 * 32 * 2, dot_bf16},
    {"dot_i8_vnni", kRowsAvx512 * 2 * 64 * 2, dot_i8_vnni},
    {"amx_bf16", int64_t{kTileProducts} * 16 * 16 * 32 * 2, amx_bf16},
    {"amx_i8", int64_t{kTileProducts} * 16 * 16 * 64 * 2, amx_i8},
};

}  // namespace

std::span<const PeakProbe> peak_probes() { return kProbes; }
#else
std::span<const PeakProbe> peak_probes() { return {}; }
#endif

}  // namespace tilewright
