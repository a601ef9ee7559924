// SPDX-License-Identifier: MIT
// The loops behind amx_limits.hpp, compiled for AMX.
#include "amx_limits.hpp"

#include "tile/cpu/amx.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {
namespace {

constexpr int64 kMiB = 1 << 20;

// A part of the memory that is walked through again and again.
struct Ring {
  char* base;
  int64 bytes, at = 0;
  TILEWRIGHT_INLINE char* next(int64 size) {
    char* p = base + at;
    at = at + size < bytes ? at + size : 0;
    return p;
  }
};

// B and A together fill 32 KiB of the first level, or 1.25 MiB of the second, as a block of the kernel does.
Ring ring_a(char* memory, Level level) { return {memory, level == Level::kFirst ? 16 << 10 : kMiB}; }
Ring ring_b(char* memory, Level level) { return {memory + 2 * kMiB, level == Level::kFirst ? 16 << 10 : 256 << 10}; }

// The columns of B that a kernel multiplies with 8 rows of tiles before it goes on to the next.
struct Columns {
  char* base;
  int64 steps, step = 0, row = 0, column = 0;
  TILEWRIGHT_INLINE char* next() {
    char* p = base + (column * steps + step) * 2 * kTileBytes;
    if (++step < steps) return p;
    step = 0;
    if (++row < 8) return p;
    row = 0;
    column ^= 1;
    return p;
  }
};
Ring ring_sums(char* memory, Level level) { return {memory + 4 * kMiB, level == Level::kFirst ? 8 << 10 : 256 << 10}; }
Ring ring_fetched(char* memory) { return {memory + 8 * kMiB, 8 * kMiB}; }

// Lines of D as a kernel writes them: 256 rows of 4 KiB, then the next column of lines.
struct RowsOfD {
  char* base;
  int64 row = 0, column = 0;
  TILEWRIGHT_INLINE char* next() {
    char* p = base + row * 4096 + column * 64;
    if (++row % 256 == 0 && ++column < 64) row -= 256;
    if (column == 64) column = 0;
    if (row == 2048) row = 0;
    return p;
  }
};

template <CpuMma kMma, int kAcc, int kA, int kB>
TILEWRIGHT_INLINE void multiply(AmxTiles& tiles) {
  if constexpr (kMma == CpuMma::kAmxBf16) tiles.dot_bf16<kAcc, kA, kB>();
  if constexpr (kMma == CpuMma::kAmxI8) tiles.dot_i8<kAcc, kA, kB>();
}
template <bool kStream, int kTile>
TILEWRIGHT_INLINE void bring(AmxTiles& tiles, const char* from) {
  if constexpr (kStream) {
    tiles.stream<kTile>(from, kTileRowBytes);
  } else {
    tiles.load<kTile>(from, kTileRowBytes);
  }
}

template <bool kStream, int kTile>
TILEWRIGHT_INLINE void bring_b(AmxTiles& tiles, const char* from, bool kept) {
  kept ? bring<false, kTile>(tiles, from) : bring<kStream, kTile>(tiles, from);
}

template <CpuMma kMma, bool kStreamA, bool kStreamB>
void run_steps(const AmxLimit& limit, char* memory, int64 steps) {
  AmxTiles tiles;
  unroll<4>([&](auto t) __attribute__((always_inline)) { tiles.zero<t.value>(); });
  Ring a = ring_a(memory, limit.a), b = ring_b(memory, limit.b), sums = ring_sums(memory, limit.sums);
  // These two go on where the last run ended, so that the second level does not hold their lines.
  static Ring fetched = ring_fetched(memory);
  static RowsOfD d = {memory + 16 * kMiB};
  char* sum = sums.next(4 * kTileBytes);
  Columns columns = {b.base, limit.column};
  int left = limit.block, d_due = 0;
  const F32x16 line_of_d[1] = {F32x16::splat(1)};
  for (int64 step = 0; step < steps; ++step) {
    for (int line = 0; line < limit.fetched; ++line) __builtin_prefetch(fetched.next(64), 0, 2);
    for (d_due += limit.d_lines; d_due >= 8; d_due -= 8) stream_line<DType::kF32>(d.next(), line_of_d);
    const bool kept = columns.step < limit.kept;
    const char* left_tiles = a.next(2 * kTileBytes);
    const char* right_tiles = limit.column > 0 ? columns.next() : b.next(2 * kTileBytes);
    // As in the kernel: a rare tilestored waits long.
    if (limit.column > 0 && step % 16 == 15) tiles.store<7>(memory + 6 * kMiB, kTileRowBytes);
    bring<kStreamA, 4>(tiles, left_tiles);
    bring<kStreamA, 5>(tiles, left_tiles + kTileBytes);
    bring_b<kStreamB, 6>(tiles, right_tiles, kept);
    multiply<kMma, 0, 4, 6>(tiles);
    multiply<kMma, 1, 5, 6>(tiles);
    bring_b<kStreamB, 7>(tiles, right_tiles + kTileBytes, kept);
    multiply<kMma, 2, 4, 7>(tiles);
    multiply<kMma, 3, 5, 7>(tiles);
    if (--left != 0) continue;
    left = limit.block;
    unroll<4>([&](auto t)
                  __attribute__((always_inline)) { tiles.store<t.value>(sum + t * kTileBytes, kTileRowBytes); });
    sum = sums.next(4 * kTileBytes);
    unroll<4>([&](auto t)
                  __attribute__((always_inline)) { tiles.stream<t.value>(sum + t * kTileBytes, kTileRowBytes); });
  }
}

template <CpuMma kMma>
void run_of(const AmxLimit& limit, char* memory, int64 steps) {
  const bool a = limit.a != Level::kFirst, b = limit.b != Level::kFirst;
  if (a && b) return run_steps<kMma, true, true>(limit, memory, steps);
  if (a) return run_steps<kMma, true, false>(limit, memory, steps);
  if (b) return run_steps<kMma, false, true>(limit, memory, steps);
  run_steps<kMma, false, false>(limit, memory, steps);
}

void run(CpuMma mma, const AmxLimit& limit, char* memory, long long steps) {
  if (mma == CpuMma::kAmxBf16) return run_of<CpuMma::kAmxBf16>(limit, memory, steps);
  run_of<CpuMma::kAmxI8>(limit, memory, steps);
}

// ---- Lines that do nothing but come -----------------------------------------------------------------------------------

template <bool kStream>
void bring_tiles(Ring from, int64 lines) {
  AmxTiles tiles;
  for (int64 line = 0; line < lines; line += 4 * kTileRows) {
    const char* p = from.next(4 * kTileBytes);
    unroll<4>([&](auto t) __attribute__((always_inline)) { bring<kStream, 4 + t.value>(tiles, p + t * kTileBytes); });
  }
}
void bring_vectors(Ring from, int64 lines) {
  I32x16 all[8] = {};
  for (int64 line = 0; line < lines; line += 8) {
    const char* p = from.next(8 * 64);
    unroll<8>([&](auto i) __attribute__((always_inline)) { all[i] = all[i] | I32x16::load(p + i * 64); });
  }
  unroll<8>([&](auto i) __attribute__((always_inline)) { all[i].store(from.base + i * 64); });
}
constexpr LineLimit kLines[] = {
    {"first level, tileloadd", [](char* m, long long lines) { bring_tiles<false>(ring_a(m, Level::kFirst), lines); }},
    {"second level, tileloaddt1",
     [](char* m, long long lines) { bring_tiles<true>(ring_a(m, Level::kSecond), lines); }},
    {"second level, tileloadd", [](char* m, long long lines) { bring_tiles<false>(ring_a(m, Level::kSecond), lines); }},
    {"second level, vector loads", [](char* m, long long lines) { bring_vectors(ring_a(m, Level::kSecond), lines); }},
    {"third level, vector loads", [](char* m, long long lines) { bring_vectors(ring_fetched(m), lines); }},
};

}  // namespace
}  // namespace TILEWRIGHT_ISA

const AmxLimits& amx_limits() {
  static const AmxLimits limits = {[] { return TILEWRIGHT_AMX != 0; }, run, kLines,
                                   static_cast<int>(sizeof(kLines) / sizeof(kLines[0]))};
  return limits;
}

}  // namespace tilewright
