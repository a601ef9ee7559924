// SPDX-License-Identifier: MIT
// Micro-kernels: a register tile of accumulators over a stretch of k. One for vector instructions, one for AMX.
//
// Numerics: the sum over k of one output runs in order of k, one instruction after the other ("seq:<mma>"); the
// accumulator goes through memory unchanged between stretches. Blocking, M and threads therefore cannot change a bit.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "tile/cpu/amx.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// ---- Columns of B behind columns of D ---------------------------------------------------------------------------------

// A range of columns of B that a block needs: whole panels; the first wanted column is `skip` columns into the first.
struct ColumnSegment {
  int64 panel, panels, skip;
};
TILEWRIGHT_INLINE ColumnSegment column_segment(int64 begin, int64 end) {
  const int64 panel = begin / kPanelColumns;
  return {panel, blocking::ceil_div(end, kPanelColumns) - panel, begin - panel * kPanelColumns};
}
// The columns of B behind columns [begin, end) of D.
TILEWRIGHT_INLINE int column_segments(GateMode gate, int64 n, int64 begin, int64 end, ColumnSegment (&segments)[2]) {
  if (gate == GateMode::kInterleaved) {
    segments[0] = column_segment(2 * begin, 2 * end);
    return 1;
  }
  segments[0] = column_segment(begin, end);
  if (gate == GateMode::kNone) return 1;
  segments[1] = column_segment(n / 2 + begin, n / 2 + end);
  return 2;
}

// ---- Lines of B -------------------------------------------------------------------------------------------------------

// Lines of 32-bit units that one packed line holds (2 where widening doubles it).
template <DType kType, CpuMma kMma>
inline constexpr int kLinesOfUnits = packed_kp(kType) / unit_k(kMma);

// The packed line at p as lines of units.
template <DType kType, CpuMma kMma>
TILEWRIGHT_INLINE void expand_line(const char* p, I32x16 (&units)[kLinesOfUnits<kType, kMma>]) {
  if constexpr (!widens_b(kType, kMma)) {
    units[0] = I32x16::load(p);
  } else if constexpr (kType == DType::kF16) {
    units[0] = as_int(F32x16::load_f16(p));
  } else if constexpr (kType == DType::kBf16) {
    const I32x16 line = I32x16::load(p);
    units[0] = shift_left<16>(line);
    units[1] = line & I32x16::splat(static_cast<int>(0xFFFF0000u));
  } else {
    // i8 to i16, two a unit.
    const I32x16 line = I32x16::load(p);
    const I32x16 low = I32x16::splat(0xFFFF), high = I32x16::splat(static_cast<int>(0xFFFF0000u));
    units[0] =
        (shift_right_signed<24>(shift_left<24>(line)) & low) | (shift_right_signed<8>(shift_left<16>(line)) & high);
    units[1] = (shift_right_signed<24>(shift_left<8>(line)) & low) | (shift_right_signed<8>(line) & high);
  }
}

// ---- Vector instructions ----------------------------------------------------------------------------------------------

template <CpuMma kMma>
struct VectorMma {
  using Acc = F32x16;
  static TILEWRIGHT_INLINE Acc zero() { return F32x16::splat(0); }
  static TILEWRIGHT_INLINE Acc step(Acc acc, I32x16 a, I32x16 b) {
    if constexpr (kMma == CpuMma::kDotBf16) return dot_bf16(acc, a, b);
    return fma(as_float(a), as_float(b), acc);
  }
};
template <>
struct VectorMma<CpuMma::kDotI8Avx2> {
  using Acc = I32x16;
  static TILEWRIGHT_INLINE Acc zero() { return I32x16::splat(0); }
  static TILEWRIGHT_INLINE Acc step(Acc acc, I32x16 a, I32x16 b) { return acc + multiply_pairs_i16(a, b); }
};
template <>
struct VectorMma<CpuMma::kDotI8> {
  using Acc = I32x16;
  static TILEWRIGHT_INLINE Acc zero() { return I32x16::splat(0); }
  static TILEWRIGHT_INLINE Acc step(Acc acc, I32x16 a, I32x16 b) { return dot_u8_i8(acc, a, b); }
};

// Panels of B side by side: the k-th line of panel p is at base[p] + k * stride.
template <int kPanels>
struct PanelLines {
  const char* base[kPanels];
  const int* sums[kPanels];  // column sums to take back (dot_i8_vnni), or null
  int64 stride;              // bytes
};

// What to fetch to the second level of cache meanwhile: `lines` cache lines of each panel at a time that the user says. The
// vector kernels do so once a micro-kernel, `limit` times, and go on by `stride` bytes.
template <int kPanels>
struct PanelPrefetch {
  const char* base[kPanels];
  int64 lines, stride, limit;
};
template <int kPanels>
TILEWRIGHT_INLINE void fetch(PanelPrefetch<kPanels>& next, int64 lines) {
  for (int64 line = 0; line < lines; ++line) {
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      __builtin_prefetch(next.base[p], 0, 2);
      next.base[p] += 64;
    });
  }
}

// What a vector micro-kernel fetches while it multiplies: the next lines of B, a stream a panel, to the first level of cache,
// and what else is given to the second. With each line of B every stream goes on by `step` bytes: a burst of fetches before
// the loop would hold up the loads behind it.
struct FetchStream {
  const char* at;
  int64 step;
};
template <int kCount>
struct FetchStreams {
  FetchStream stream[kCount > 0 ? kCount : 1];
};

// Accumulators come from `c_in` (null: they start at zero) and go to `c_out`.
struct MicroC {
  const float* in;
  int64 in_stride;  // elements
  float* out;
  int64 out_stride;
};

// What becomes of sums that need nothing else than memory.
struct StoreSums {
  template <class Acc>
  TILEWRIGHT_INLINE bool operator()(const Acc&) const {
    return false;
  }
};

// What a loop over k does beside its products.
struct NothingBeside {
  TILEWRIGHT_INLINE void operator()(int64) const {}
};

// c[rows][16 panels] += A B. a: units [steps][kRows]. With kExpand, the lines of B are packed and
// `lines` counts those; else they are lines of units. finish(acc): true where it has taken the sums from the registers.
// beside(line): called once a line.
template <DType kType, CpuMma kMma, int kRows, int kPanels, bool kExpand, int kPrefetch, int kStreams,
          class Finish = StoreSums, class Beside = NothingBeside>
TILEWRIGHT_INLINE void micro_vector(const char* a, int64 lines, const PanelLines<kPanels>& b, const MicroC& c,
                                    FetchStreams<kStreams> streams, Finish finish = {}, Beside beside = {}) {
  using Mma = VectorMma<kMma>;
  using Acc = typename Mma::Acc;
  constexpr int kUnits = kExpand ? kLinesOfUnits<kType, kMma> : 1;
  Acc acc[kRows][kPanels];
  if (c.in == nullptr) {
    unroll<kRows * kPanels>([&](auto t)
                                __attribute__((always_inline)) { acc[t / kPanels][t % kPanels] = Mma::zero(); });
  } else {
    unroll<kRows * kPanels>([&](auto t) __attribute__((always_inline)) {
      acc[t / kPanels][t % kPanels] = Acc::load(c.in + t / kPanels * c.in_stride + t % kPanels * 16);
    });
  }
  if constexpr (needs_column_sums(kMma)) {
    // A was packed plus 128: take 128 times the column sums back.
    if (b.sums[0] != nullptr) {
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        const I32x16 offset = shift_left<7>(I32x16::load(b.sums[p]));
        unroll<kRows>([&](auto i) __attribute__((always_inline)) { acc[i][p] = acc[i][p] - offset; });
      });
    }
  }

  const char* base[kPanels];
  unroll<kPanels>([&](auto p) __attribute__((always_inline)) { base[p] = b.base[p]; });
  for (int64 l = 0; l < lines; ++l) {
    unroll<kStreams>([&](auto i) __attribute__((always_inline)) {
      __builtin_prefetch(streams.stream[i].at, 0, i < kPanels ? 3 : 2);
      streams.stream[i].at += streams.stream[i].step;
    });
    if constexpr (kExpand) {
      // A panel at a time: its widened lines are dead before the next panel's.
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        I32x16 units[kUnits];
        expand_line<kType, kMma>(base[p], units);
        unroll<kUnits>([&](auto u) __attribute__((always_inline)) {
          unroll<kRows>([&](auto i) __attribute__((always_inline)) {
            acc[i][p] = Mma::step(acc[i][p], I32x16::splat(read_as<int>(a + (u * kRows + i) * 4)), units[u]);
          });
        });
      });
    } else {
      I32x16 line[kPanels];
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) { line[p] = I32x16::load(base[p]); });
      unroll<kRows * kPanels>([&](auto t) __attribute__((always_inline)) {
        constexpr int i = t / kPanels, p = t % kPanels;
        acc[i][p] = Mma::step(acc[i][p], I32x16::splat(read_as<int>(a + i * 4)), line[p]);
      });
    }
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      if constexpr (kPrefetch > 0) __builtin_prefetch(base[p] + kPrefetch * 64);
      base[p] += b.stride;
    });
    beside(l);
    a += kUnits * kRows * 4;
  }

  if (finish(acc)) return;
  unroll<kRows * kPanels>([&](auto t) __attribute__((always_inline)) {
    acc[t / kPanels][t % kPanels].store(c.out + t / kPanels * c.out_stride + t % kPanels * 16);
  });
}

// ---- AMX --------------------------------------------------------------------------------------------------------------

inline constexpr int kIdleStore = 16;  // tiles of k
inline constexpr int kSideCalls = 4;
inline constexpr int kResidentBytesB = 36864;  // of B's columns, what stays in the first level of cache

// c[16 kRows][16 kPanels] += A B over `ktiles` tiles of k. a: tiles [ktiles][kRows], b: panels of tiles. Tiles:
// accumulators first, then those of A, then one of B.
//
// NOTE(streaming): two tiles of A and two of B in 64 cycles are 64 bytes a cycle; from the second level of cache
// tileloaddt1 delivers 55 and evicts nothing from the first, tileloadd 47. So A streams, and B behind its first
// `resident` tiles, which the rows of a block share in the first level.
// NOTE(prefetch): `next` is fetched, next.lines cache lines a tile of k.
// NOTE(side): side() is called at each step of k: vector work that hides behind the multiplier if it comes in small parts.
// NOTE(idle store): a tilestored that comes more than 2000 cycles after the last one waits another 850. A store of some
// tile to `idle` (1 KiB that nobody reads) every 16 tiles of k keeps the path awake, for 16 cycles each.
template <CpuMma kMma, int kRows, int kPanels, class Side>
TILEWRIGHT_INLINE void micro_amx(AmxTiles& tiles, const char* a, int64 ktiles, const PanelLines<kPanels>& b,
                                 const MicroC& c, char* idle, int64 resident, PanelPrefetch<kPanels>& next,
                                 Side&& side) {
  constexpr int kA = kRows * kPanels, kB = kA + kRows;
  static_assert(kB < 8);
  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      constexpr int kAcc = i.value * kPanels + p.value;
      if (c.in == nullptr) {
        tiles.template zero<kAcc>();
      } else {
        tiles.template stream<kAcc>(c.in + i * 16 * c.in_stride + p * 16, c.in_stride * 4);
      }
    });
  });
  for (int64 t = 0; t < ktiles; ++t) {
    side();
    if (t % kIdleStore == kIdleStore - 1) tiles.template store<kB>(idle, kTileRowBytes);
    fetch(next, next.lines);
    unroll<kRows>([&](auto i) __attribute__((always_inline)) {
      tiles.template stream<kA + i.value>(a + (t * kRows + i) * kTileBytes, kTileRowBytes);
    });
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      if (t < resident) {
        tiles.template load<kB>(b.base[p] + t * kTileBytes, kTileRowBytes);
      } else {
        tiles.template stream<kB>(b.base[p] + t * kTileBytes, kTileRowBytes);
      }
      unroll<kRows>([&](auto i) __attribute__((always_inline)) {
        constexpr int kAcc = i.value * kPanels + p.value;
        if constexpr (kMma == CpuMma::kAmxBf16) tiles.template dot_bf16<kAcc, kA + i.value, kB>();
        if constexpr (kMma == CpuMma::kAmxI8) tiles.template dot_i8<kAcc, kA + i.value, kB>();
      });
    });
  }
  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      tiles.template store<i.value * kPanels + p.value>(c.out + i * 16 * c.out_stride + p * 16, c.out_stride * 4);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
