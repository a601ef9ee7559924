// SPDX-License-Identifier: MIT
// gemv_cpu: GEMM with few rows (M <= 16), bound by reading B once.
//
// Packed weights: panels stream through registers against broadcasts of A, the whole of K in one go; the order of the sum
// is that of gemm_cpu ("seq:<mma>"). Plain weights with k contiguous: dot products, 16 partial sums (unit u of k goes to
// sum u mod 16) that are added as a tree at the end ("lanes16:<mma>").
#pragma once

#include "gemm/cpu/gemm_epilogue_cpu.hpp"
#include "gemm/cpu/gemm_micro_cpu.hpp"
#include "gemm/cpu/gemm_pack_cpu.hpp"
#include "gemm/cpu/gemv_cpu_blocking.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Lane i + lane i + 8, then + 4, + 2, + 1.
TILEWRIGHT_INLINE float sum_lanes(F32x16 x) {
  alignas(64) float lanes[16];
  x.store(lanes);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
TILEWRIGHT_INLINE float sum_lanes(I32x16 x) {
  alignas(64) unsigned lanes[16];
  x.store(lanes);
  for (int i = 1; i < 16; ++i) lanes[0] += lanes[i];
  return __builtin_bit_cast(float, lanes[0]);  // the epilogue takes i32 bits
}

// c[rows][columns] = A B for `kColumns` columns of plain B, `stride_n` bytes apart. a: rows of units, `a_stride` bytes
// apart, zero past k.
template <DType kType, CpuMma kMma, int kRows, int kColumns, int kPrefetch>
TILEWRIGHT_INLINE void dot_columns(const char* a, int64 a_stride, int64 k, const char* b, int64 stride_n, float* c,
                                   int64 stride) {
  using Mma = VectorMma<kMma>;
  using Acc = typename Mma::Acc;
  constexpr int kGroup = 16 * unit_k(kMma), kSize = kBytes<kType>;
  Acc acc[kRows][kColumns];
  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    unroll<kColumns>([&](auto j) __attribute__((always_inline)) { acc[i][j] = Mma::zero(); });
  });
  I32x16 sums[kColumns];  // of B, to take A's offset back
  unroll<kColumns>([&](auto j) __attribute__((always_inline)) { sums[j] = I32x16::splat(0); });

  const auto step = [&](int64 at, const char* const(&column)[kColumns]) __attribute__((always_inline)) {
    unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
      I32x16 units;
      if constexpr (unit_k(kMma) == 1) {
        units = as_int(load_vec<kType>(column[j]));
      } else if constexpr (kMma == CpuMma::kDotI8Avx2) {
        units = I32x16::widen_i8_pairs(column[j]);
      } else {
        units = I32x16::load(column[j]);
      }
      if constexpr (needs_column_sums(kMma)) sums[j] = dot_u8_i8(sums[j], I32x16::splat(0x01010101), units);
      unroll<kRows>([&](auto i) __attribute__((always_inline)) {
        acc[i][j] = Mma::step(acc[i][j], I32x16::load(a + i * a_stride + at / unit_k(kMma) * 4), units);
      });
    });
  };

  const char* column[kColumns];
  unroll<kColumns>([&](auto j) __attribute__((always_inline)) { column[j] = b + j * stride_n; });
  int64 at = 0;
  for (; at + kGroup <= k; at += kGroup) {
    step(at, column);
    unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
      if constexpr (kPrefetch > 0) __builtin_prefetch(column[j] + kPrefetch * 64);
      column[j] += kGroup * kSize;
    });
  }
  if (at < k) {
    alignas(64) char tail[kColumns][64] = {};
    const char* tails[kColumns];
    unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
      __builtin_memcpy(tail[j], column[j], static_cast<unsigned long>(k - at) * kSize);
      tails[j] = tail[j];
    });
    step(at, tails);
  }

  unroll<kRows>([&](auto i) __attribute__((always_inline)) {
    unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
      if constexpr (needs_column_sums(kMma)) acc[i][j] = acc[i][j] - shift_left<7>(sums[j]);
      c[i * stride + j] = sum_lanes(acc[i][j]);
    });
  });
}

// The state of one unit's run.
template <GemvCpuConfig kConfig>
class GemvCpuUnit {
 public:
  TILEWRIGHT_INLINE GemvCpuUnit(const GemmArgs& args, unsigned unit, unsigned units)
      : args_(args), blocking_(gemv_cpu_blocking(kConfig, gemm_cpu_sizes(args), units)), unit_(unit) {
    char* workspace = static_cast<char*>(args.workspace) + unit * blocking_.unit_bytes;
    acc_ = reinterpret_cast<float*>(workspace);
    packed_a_ = workspace + blocking_.a_offset;
  }

  void run() {
    const GemvCpuBlocking& s = blocking_;
    if (args_.m <= 0 || args_.n <= 0 || args_.batch <= 0 || unit_ >= s.units_batch * s.units_n) return;
    const int64 in = unit_ % s.units_n, ib = unit_ / s.units_n;
    const int64 n_begin = blocking::share_begin(s.n_tiles, s.units_n, in) * s.tile;
    const int64 n_end = blocking::smaller(s.out_n, blocking::share_begin(s.n_tiles, s.units_n, in + 1) * s.tile);
    const int64 batch_end = blocking::share_begin(args_.batch, s.units_batch, ib + 1);
    for (int64 batch = blocking::share_begin(args_.batch, s.units_batch, ib); batch < batch_end; ++batch) {
      b_ = static_cast<const char*>(args_.b);
      if (batch != 0) b_ += batch * args_.stride_b_batch * (kConfig.packed ? 1 : kBytes<kType>);
      pack_a(batch);
      for (int64 n = n_begin; n < n_end; n += s.block_out)
        run_block(batch, n, blocking::smaller(n_end, n + s.block_out));
    }
  }

 private:
  static constexpr DType kType = kConfig.dtype;
  static constexpr CpuMma kMma = kConfig.mma;
  static constexpr int kRows = kConfig.rows;
  static constexpr int64 kFirstLines = 16;  // of each stream

  // Groups of kRows rows as units: [step][row] against panels, [row][step] against plain columns. Zero past K.
  void pack_a(int64 batch) {
    const char* a = static_cast<const char*>(args_.a);
    if (batch != 0) a += batch * args_.stride_a_batch * kBytes<kType>;
    for (int64 g = 0; g < blocking_.row_groups; ++g) {
      char* out = packed_a_ + g * blocking_.a_group_bytes;
      const int64 valid = blocking::smaller(kRows, args_.m - g * kRows);
      __builtin_memset(out, 0, static_cast<unsigned long>(blocking_.a_group_bytes));
      if (args_.k <= 0) continue;
      const char* from = a + g * kRows * args_.stride_a_m * kBytes<kType>;
      if constexpr (kConfig.packed) {
        pack_a_units<kType, kMma>(from, args_.stride_a_m, args_.stride_a_k, kRows, valid, args_.k, out);
        continue;
      }
      for (int64 r = 0; r < valid; ++r) {
        char* row = out + r * row_bytes();
        for (int64 k = 0; k < args_.k; k += 16 * unit_k(kMma)) {
          const char* source = from + (r * args_.stride_a_m + k * args_.stride_a_k) * kBytes<kType>;
          load_units<kType, kMma>(source, args_.stride_a_k, args_.k - k).store(row + k / unit_k(kMma) * 4);
        }
      }
    }
  }
  int64 row_bytes() const { return blocking::ceil_div(args_.k, 16 * unit_k(kMma)) * 64; }

  // Columns [begin, end) of D.
  void run_block(int64 batch, int64 begin, int64 end) {
    ColumnSegment segments[2];
    const int count = column_segments(args_.epilogue.gate, args_.n, begin, end, segments);
    for (int i = 0; i < count; ++i) {
      float* acc = acc_ + i * blocking_.segment_columns;
      if constexpr (kConfig.packed) {
        multiply_packed(segments[i], acc);
      } else {
        multiply_plain(segments[i], acc);
      }
    }
    float* up = acc_ + blocking_.segment_columns + (count == 2 ? segments[1].skip : 0);
    gemm_epilogue<is_integer(kMma)>(args_.epilogue, args_.n, batch, 0, args_.m, begin, end - begin, acc_, up,
                                    blocking_.acc_stride);
  }

  void multiply_packed(const ColumnSegment& segment, float* acc) {
    constexpr int kPanels = kConfig.panels;
    const int64 panel_bytes = packed_panel_bytes(kType, args_.k);
    const int64 lines = blocking::ceil_div(args_.k, packed_kp(kType));
    const int64 body = blocking::larger(0, lines - kFirstLines);
    const int* sums = reinterpret_cast<const int*>(b_ + packed_panels(args_.n) * panel_bytes);
    for (int64 tile = 0; tile < segment.panels; tile += kPanels) {
      PanelLines<kPanels> panels, last;
      FetchStreams<kPanels> next;
      panels.stride = last.stride = packed_line_bytes(kType);
      for (int p = 0; p < kPanels; ++p) {
        // Past the last panel the last one is read again; its results fall into padding.
        const int64 panel = segment.panel + blocking::smaller(tile + p, segment.panels - 1);
        const int64 behind = blocking::smaller(panel + kPanels, packed_panels(args_.n) - 1);
        panels.base[p] = b_ + panel * panel_bytes;
        panels.sums[p] = needs_column_sums(kMma) ? sums + panel * kPanelColumns : nullptr;
        last.base[p] = panels.base[p] + body * panels.stride;
        last.sums[p] = nullptr;
        next.stream[p] = {b_ + behind * panel_bytes, panels.stride};
      }
      for (int64 g = 0; g < blocking_.row_groups; ++g) {
        const char* a = packed_a_ + g * blocking_.a_group_bytes;
        float* c = acc + g * kRows * blocking_.acc_stride + tile * kPanelColumns;
        const MicroC fresh = {nullptr, 0, c, blocking_.acc_stride};
        if constexpr (kConfig.prefetch > 0) {
          micro_vector<kType, kMma, kRows, kPanels, true, kConfig.prefetch, 0>(a, lines, panels, fresh, {});
          continue;
        }
        // The hardware sees new streams only after their first lines: those are asked for during the last lines of these.
        micro_vector<kType, kMma, kRows, kPanels, true, 0, 0>(a, body, panels, fresh, {});
        micro_vector<kType, kMma, kRows, kPanels, true, 0, kPanels>(
            a + body * kRows * kLinesOfUnits<kType, kMma> * 4, lines - body, last,
            {c, blocking_.acc_stride, c, blocking_.acc_stride}, next);
      }
    }
  }

  void multiply_plain(const ColumnSegment& segment, float* acc) {
    constexpr int kColumns = kConfig.panels;
    const int64 first = segment.panel * kPanelColumns, stride = args_.stride_b_n * kBytes<kType>;
    const int64 last = blocking::smaller(args_.n, first + segment.panels * kPanelColumns);
    int64 n = first + segment.skip;
    for (; n + kColumns <= last; n += kColumns) plain_columns<kColumns>(n, stride, acc + (n - first));
    for (; n < last; ++n) plain_columns<1>(n, stride, acc + (n - first));
  }
  template <int kColumns>
  void plain_columns(int64 n, int64 stride, float* acc) {
    const char* b = args_.k > 0 ? b_ + n * stride : b_;
    for (int64 g = 0; g < blocking_.row_groups; ++g) {
      dot_columns<kType, kMma, kRows, kColumns, kConfig.prefetch>(
          packed_a_ + g * blocking_.a_group_bytes, row_bytes(), args_.k, b, stride,
          acc + g * kRows * blocking_.acc_stride, blocking_.acc_stride);
    }
  }

  const GemmArgs& args_;
  const GemvCpuBlocking blocking_;
  const int64 unit_;
  float* acc_;
  char* packed_a_;
  const char* b_ = nullptr;  // of the current batch entry
};

template <GemvCpuConfig kConfig>
void gemv_cpu(const GemmArgs& args, unsigned unit, unsigned units) {
  static_assert(gemv_cpu_refusal(kConfig) == nullptr);
  GemvCpuUnit<kConfig>(args, unit, units).run();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
