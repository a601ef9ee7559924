// SPDX-License-Identifier: MIT
// Each loop keeps enough independent accumulators in registers to cover the instruction's latency: 4 to 8 cycles on at
// most two ports for vectors, 52 cycles against 16 for a tile product. No step is the same in two rounds, so no compiler
// can take work out of the loop.
#include "device/cpu/limits/peak_probes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tilewright {

#if defined(__x86_64__)
namespace {

// What a loop computes goes here, so that it cannot be left out.
thread_local volatile float sink;

// Values that the compiler does not know. Sums settle at or grow to normal numbers: no overflow, no subnormals.
volatile float half = 0.5f;
volatile int bf16_pair = 0x3f003f00;  // two times 0.5
volatile int byte_quad = 0x03030303;

constexpr int kChains = 12;

__attribute__((target("avx2,fma"))) void fma_avx2(int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(half), addend = _mm256_set1_ps(half);
  __m256 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], factor, addend);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  sink = _mm256_cvtss_f32(sum[0]);
}

// 16-bit products of widened bytes, and an addition: what a kernel without byte dot products does. One factor changes
// from round to round and the other comes from memory, as a panel does. Eight sums: g++ spills more.
constexpr int kDotI8Chains = 8;
alignas(32) int16_t panel[kDotI8Chains][16];
int16_t (*volatile opaque_panel)[16] = panel;

__attribute__((target("avx2"))) void dot_i8_avx2(int64_t rounds) {
  const int16_t(*lines)[16] = opaque_panel;
  const __m256i step = _mm256_set1_epi32(byte_quad);
  __m256i factor = step;
  __m256i sum[kDotI8Chains];
  for (int i = 0; i < kDotI8Chains; ++i) sum[i] = _mm256_set1_epi32(i);
  for (int64_t round = 0; round < rounds; ++round) {
    factor = _mm256_add_epi16(factor, step);
#pragma GCC unroll 8
    for (int i = 0; i < kDotI8Chains; ++i) {
      const __m256i line = _mm256_load_si256(reinterpret_cast<const __m256i*>(lines[i]));
      sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(factor, line));
    }
  }
  for (int i = 1; i < kDotI8Chains; ++i) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
  sink = static_cast<float>(_mm256_extract_epi32(sum[0], 0));
}

__attribute__((target("avx512f"))) void fma_avx512(int64_t rounds) {
  const __m512 factor = _mm512_set1_ps(half), addend = _mm512_set1_ps(half);
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], factor, addend);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  sink = _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) void dot_bf16(int64_t rounds) {
  const __m512bh a = (__m512bh)_mm512_set1_epi32(bf16_pair), b = a;
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  sink = _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) void dot_i8_vnni(int64_t rounds) {
  const __m512i a = _mm512_set1_epi32(byte_quad), b = a;
  __m512i sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  sink = static_cast<float>(_mm512_cvtsi512_si32(sum[0]));
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

struct alignas(64) Tile {
  uint32_t values[16 * 16];
};
constexpr Tile filled(uint32_t value) {
  Tile tile{};
  for (uint32_t& element : tile.values) element = value;
  return tile;
}
constexpr Tile kBf16Tile = filled(0x3f003f00);
constexpr Tile kI8Tile = filled(0x03030303);

constexpr int kTileChains = 6;  // tiles 0 .. 5 are sums, 6 and 7 the factors

__attribute__((target("amx-tile"))) void begin_tiles(const Tile& factor) {
  _tile_loadconfig(&kTileConfig);
  _tile_loadd(6, factor.values, 64);
  _tile_loadd(7, factor.values, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

__attribute__((target("amx-tile,amx-bf16"))) void amx_bf16(int64_t rounds) {
  begin_tiles(kBf16Tile);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-int8"))) void amx_i8(int64_t rounds) {
  begin_tiles(kI8Tile);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbssd(0, 6, 7);
    _tile_dpbssd(1, 6, 7);
    _tile_dpbssd(2, 6, 7);
    _tile_dpbssd(3, 6, 7);
    _tile_dpbssd(4, 6, 7);
    _tile_dpbssd(5, 6, 7);
  }
  _tile_release();
}

// A multiplication and an addition count as two operations.
constexpr PeakProbe kProbes[] = {
    {"fma_avx2", kChains * 8 * 2, fma_avx2},
    {"dot_i8_avx2", kDotI8Chains * 16 * 2, dot_i8_avx2},
    {"fma_avx512", kChains * 16 * 2, fma_avx512},
    {"dot_bf16", kChains * 32 * 2, dot_bf16},
    {"dot_i8_vnni", kChains * 64 * 2, dot_i8_vnni},
    {"amx_bf16", int64_t{kTileChains} * 16 * 16 * 32 * 2, amx_bf16},
    {"amx_i8", int64_t{kTileChains} * 16 * 16 * 64 * 2, amx_i8},
};

}  // namespace

std::span<const PeakProbe> peak_probes() { return kProbes; }
#else
std::span<const PeakProbe> peak_probes() { return {}; }
#endif

}  // namespace tilewright
