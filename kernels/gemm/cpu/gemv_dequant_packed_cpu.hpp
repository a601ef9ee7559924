// SPDX-License-Identifier: MIT
// gemv_dequant_packed_cpu: rows of f16 or bf16 times packed weights of i4, u4, e2m1 or i8, bound by reading the weights
// once. Scales of 32, 64 or 128 of K, with zero points or without, or none.
//
// A column is a lane of a line, K lies in a lane's bytes: A is broadcast, nothing is added across lanes, and one vector has
// the scales of 16 columns. A block of 128 of K is multiplied as digits where A has them (gemv_dequant_packed_digits_cpu.hpp), as
// floats elsewhere. Zero points multiply the sum of A and come off a group's sum. The sum over groups runs in
// order ("panels:<mma>").
#pragma once

#include "gemm/cpu/gemm_epilogue_cpu.hpp"
#include "gemm/cpu/gemm_micro_cpu.hpp"
#include "gemm/cpu/gemv_dequant_packed_digits_cpu.hpp"
#include "gemm/cpu/gemv_dequant_scales_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <GemvDequantPackedCpuConfig kConfig>
class GemvDequantPackedCpuUnit {
 public:
  TILEWRIGHT_INLINE GemvDequantPackedCpuUnit(const GemmScaledArgs& scaled, unsigned unit, unsigned units)
      : scaled_(scaled),
        args_(scaled.gemm),
        blocking_(gemv_dequant_packed_cpu_blocking(kConfig, gemm_cpu_sizes(scaled.gemm), units)),
        layout_(packed_layout(kType, scaled.gemm.n, scaled.gemm.k)),
        unit_(unit) {
    char* workspace = static_cast<char*>(args_.workspace) + unit * blocking_.unit_bytes;
    acc_ = reinterpret_cast<float*>(workspace);
    a_ = workspace + blocking_.grid.a_offset;
    digits_ = workspace + blocking_.digits_offset;
    groups_ = reinterpret_cast<float*>(workspace + blocking_.groups_offset);
  }

  void run() {
    const GemvCpuBlocking& s = blocking_.grid;
    if (args_.m <= 0 || args_.n <= 0 || args_.batch <= 0 || unit_ >= s.units_batch * s.units_n) return;
    const int64 in = unit_ % s.units_n, ib = unit_ / s.units_n;
    const int64 n_begin = blocking::share_begin(s.n_tiles, s.units_n, in) * s.tile;
    const int64 n_end = blocking::smaller(s.out_n, blocking::share_begin(s.n_tiles, s.units_n, in + 1) * s.tile);
    const int64 batch_end = blocking::share_begin(args_.batch, s.units_batch, ib + 1);
    for (int64 batch = blocking::share_begin(args_.batch, s.units_batch, ib); batch < batch_end; ++batch) {
      for (int64 m = 0; m < args_.m; m += kDequantPackedRows) {
        rows_ = blocking::smaller(kDequantPackedRows, args_.m - m);
        arrange(batch, m);
        for (int64 n = n_begin; n < n_end; n += s.block_out) {
          run_block(batch, m, n, blocking::smaller(n_end, n + s.block_out));
        }
      }
    }
  }

 private:
  static constexpr DType kType = kConfig.dtype;
  static constexpr bool kNibbles = dtype_bits(kType) == 4, kWhole = kConfig.mma == CpuMma::kDotI8;
  static constexpr int kRows = kConfig.rows, kPanels = kConfig.panels;
  static constexpr int kLineK = kNibbles ? 8 : 4;  // of a line
  static constexpr int kGroupLines = 32 / kLineK;  // of 32 of K
  static constexpr int64 kBlockBytes = kDequantBlock / kLineK * 64;
  static constexpr int64 kFloatSums = kDequantBlock * 4;  // in a block of A as floats: of the groups, and of all
  static constexpr int kAll = PackedDigitBlock::kAll;

  // ---- A ----------------------------------------------------------------------------------------------------------------

  // Elements [k0, k0 + kDequantBlock) of a row of A as f32, zero past K.
  template <DType kHalf>
  TILEWRIGHT_INLINE void load_block_of(const char* row, int64 k0, float (&x)[kDequantBlock]) {
    const int64 count = blocking::smaller(kDequantBlock, args_.k - k0), stride = args_.stride_a_k * 2;
    const char* from = row + k0 * stride;
    if (args_.stride_a_k == 1 && count == kDequantBlock) {
      for (int i = 0; i < kDequantBlock; i += kVec) load_vec<kHalf>(from + i * 2).store(x + i);
      return;
    }
    for (int64 i = 0; i < kDequantBlock; ++i) x[i] = i < count ? load_one<kHalf>(from + i * stride) : 0;
  }

  // Rows [m, m + rows_). A block has digits when those of all rows that are multiplied together have.
  void arrange(int64 batch, int64 m) {
    const char* const a = static_cast<const char*>(args_.a) + (batch * args_.stride_a_batch + m * args_.stride_a_m) * 2;
    const auto load = [&](int64 row, int64 block, float(&x)[kDequantBlock]) {
      const char* const from = a + row * args_.stride_a_m * 2;
      if (args_.a_dtype == DType::kBf16) {
        load_block_of<DType::kBf16>(from, block * kDequantBlock, x);
      } else {
        load_block_of<DType::kF16>(from, block * kDequantBlock, x);
      }
    };
    for (int64 first = 0; first < rows_; first += kRows) {
      const int64 rows = blocking::smaller(kRows, rows_ - first);
      for (int64 block = 0; block < blocking_.blocks; ++block) {
        alignas(64) float x[kDequantBlock];
        if constexpr (kWhole) {
          char* const to = digits_ + first * blocking_.digit_bytes + block * kDequantPackedDigits;
          int whole = 1;
          for (int64 r = 0; r < rows && whole != 0; ++r) {
            load(first + r, block, x);
            whole = store_packed_digits<kType>(x, to + r * blocking_.digit_bytes) ? 1 : 0;
          }
          __builtin_memcpy(to + PackedDigitBlock::kWhole, &whole, sizeof(whole));
          if (whole != 0) continue;
        }
        for (int64 r = 0; r < rows; ++r) {
          load(first + r, block, x);
          arrange_floats(
              x, reinterpret_cast<float*>(a_ + (first + r) * blocking_.row_bytes + block * kDequantPackedFloats));
        }
      }
    }
  }
  static void arrange_floats(const float (&x)[kDequantBlock], float* to) {
    float* const sums = to + kDequantBlock;
    __builtin_memcpy(to, x, sizeof(x));
    sums[kAll] = 0;
    for (int group = 0; group < kDequantGroups; ++group) {
      float sum = 0;
      for (int i = 0; i < 32; ++i) sum += x[32 * group + i];
      sums[group] = sum;
      sums[kAll] += sum;
    }
  }

  // ---- Columns ----------------------------------------------------------------------------------------------------------

  // Rows [m, m + rows_) and columns [begin, end) of D.
  void run_block(int64 batch, int64 m, int64 begin, int64 end) {
    const GemvCpuBlocking& s = blocking_.grid;
    ColumnSegment segments[2];
    const int count = column_segments(args_.epilogue.gate, args_.n, begin, end, segments);
    for (int i = 0; i < count; ++i) multiply(batch, segments[i], acc_ + i * s.segment_columns);
    float* up = acc_ + s.segment_columns + (count == 2 ? segments[1].skip : 0);
    gemm_epilogue<false>(args_.epilogue, args_.n, batch, m, rows_, begin, end - begin, acc_, up, s.acc_stride);
  }

  // K in pieces whose A stays in the first level from panel to panel.
  void multiply(int64 batch, const ColumnSegment& segment, float* acc) {
    const bool has_scale = scaled_.scale.b.data != nullptr, has_zero = scaled_.zero_b.data != nullptr;
    every_ = has_scale && scaled_.scale.b.k == kDequantBlock ? 1 : kDequantGroups;
    const auto body = !has_scale ? &GemvDequantPackedCpuUnit::multiply_chunk<DequantScales::kNone, false>
                      : every_ == 1
                          ? (has_zero ? &GemvDequantPackedCpuUnit::multiply_chunk<DequantScales::kBlock, true>
                                      : &GemvDequantPackedCpuUnit::multiply_chunk<DequantScales::kBlock, false>)
                      : has_zero ? &GemvDequantPackedCpuUnit::multiply_chunk<DequantScales::kGroups, true>
                                 : &GemvDequantPackedCpuUnit::multiply_chunk<DequantScales::kGroups, false>;
    const char* const b = static_cast<const char*>(args_.b) + batch * args_.stride_b_batch;
    for (int64 piece = 0; piece < blocking_.blocks; piece += kDequantPackedPiece) {
      const int64 piece_end = blocking::smaller(blocking_.blocks, piece + kDequantPackedPiece);
      for (int64 tile = 0; tile < segment.panels; tile += kPanels) {
        Chunk chunk;
        for (int p = 0; p < kPanels; ++p) {
          // Past the last panel that one is read again; its results fall into padding.
          chunk.panel[p] = segment.panel + blocking::smaller(tile + p, segment.panels - 1);
          const int64 next = blocking::smaller(tile + kPanels + p, segment.panels - 1) + segment.panel;
          chunk.next[p] = b + next * layout_.panel_bytes + piece * kBlockBytes;
        }
        for (chunk.begin = piece; chunk.begin < piece_end; chunk.begin = chunk.end) {
          chunk.end = blocking::smaller(piece_end, chunk.begin + kDequantPackedChunk);
          chunk.last = chunk.end == piece_end;
          for (int p = 0; p < kPanels; ++p) {
            chunk.b[p] = b + chunk.panel[p] * layout_.panel_bytes + chunk.begin * kBlockBytes;
            if (has_scale) load_scales(scaled_.scale.b, batch, chunk, p, groups_ + p * kGroupFloats);
            if (has_zero) load_scales(scaled_.zero_b, batch, chunk, p, groups_ + (kPanels + p) * kGroupFloats);
          }
          for (int64 g = 0; g < blocking_.grid.row_groups && g * kRows < rows_; ++g) {
            chunk.row = g * kRows;
            (this->*body)(chunk, acc + chunk.row * blocking_.grid.acc_stride + tile * kPanelColumns);
          }
        }
      }
    }
  }

  // Blocks [begin, end) of kPanels panels.
  struct Chunk {
    int64 begin, end, row;
    int64 panel[kPanels];
    const char* b[kPanels];     // block `begin`
    const char* next[kPanels];  // what is read after the last chunk of a piece
    bool last;
  };
  static constexpr int64 kGroupFloats = kDequantPackedChunk * kDequantGroups * kPanelColumns;

  void load_scales(const GemmBlockScale& s, int64 batch, const Chunk& chunk, int p, float* out) const {
    const int64 n = chunk.panel[p] * kPanelColumns;
    const int columns = static_cast<int>(blocking::smaller(kPanelColumns, args_.n - n));
    load_panel_blocks(s, batch, n, columns, args_.k, chunk.begin, chunk.end - chunk.begin, every_, out);
  }

  // ---- A chunk ----------------------------------------------------------------------------------------------------------

  template <DequantScales kScales, bool kZeros>
  void multiply_chunk(const Chunk& chunk, float* c) {
    constexpr int kParts = kScales == DequantScales::kGroups ? kDequantGroups : 1;
    const int64 stride = blocking_.grid.acc_stride;
    F32x16 total[kPanels][kRows];
    unroll<kPanels * kRows>([&](auto i) __attribute__((always_inline)) {
      float* const at = c + i % kRows * stride + i / kRows * kPanelColumns;
      total[i / kRows][i % kRows] = chunk.begin == 0 ? F32x16::splat(0) : F32x16::load(at);
    });
    const char* digits = digits_ + chunk.row * blocking_.digit_bytes + chunk.begin * kDequantPackedDigits;
    const char* a = a_ + chunk.row * blocking_.row_bytes + chunk.begin * kDequantPackedFloats;
    const char* b[kPanels];
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) { b[p] = chunk.b[p]; });
    const float* groups = groups_;
    const int64 count = chunk.end - chunk.begin;
    for (int64 i = 0; i < count; ++i) {
      fetch_ahead(chunk, i, b);
      // The last block of bytes may be half of one.
      alignas(64) char tail[kPanels][kNibbles ? 64 : kBlockBytes];
      const char* from[kPanels];
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) { from[p] = b[p]; });
      if (!kNibbles && (chunk.begin + i) * kBlockBytes + kBlockBytes > layout_.panel_bytes) {
        unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          __builtin_memset(tail[p], 0, sizeof(tail[p]));
          __builtin_memcpy(tail[p], b[p],
                           static_cast<unsigned long>(layout_.panel_bytes - (chunk.begin + i) * kBlockBytes));
          from[p] = tail[p];
        });
      }
      bool whole = false;
      if constexpr (kWhole) {
        whole = __builtin_expect(read_as<int>(digits + PackedDigitBlock::kWhole) != 0, 1);
        if (whole) whole_block<kScales, kZeros>(digits, from, groups, total);
      }
      if (!whole) float_block<kScales, kZeros>(a, from, groups, total);
      digits += kDequantPackedDigits;
      a += kDequantPackedFloats;
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) { b[p] += kBlockBytes; });
      groups += kParts * kPanelColumns;
    }
    unroll<kPanels * kRows>([&](auto i) __attribute__((always_inline)) {
      total[i / kRows][i % kRows].store(c + i % kRows * stride + i / kRows * kPanelColumns);
    });
  }

  TILEWRIGHT_INLINE void fetch_ahead(const Chunk& chunk, int64 i, const char* const (&b)[kPanels]) const {
    if constexpr (kConfig.prefetch == 0) return;
    const int64 over = i + kConfig.prefetch - (chunk.end - chunk.begin);
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      const bool next = chunk.last && over >= 0;
      const char* const at = next ? chunk.next[p] + over * kBlockBytes : b[p] + kConfig.prefetch * kBlockBytes;
      unroll<kBlockBytes / 64>([&](auto line) __attribute__((always_inline)) { __builtin_prefetch(at + line * 64); });
    });
  }

  // total += the sum of a group or block, in units of A, less its zero points, times its scales.
  template <DequantScales kScales, bool kZeros>
  TILEWRIGHT_INLINE void add_sum(F32x16 sum, F32x16 unit, float sum_a, const float* groups, F32x16& total) const {
    if constexpr (kZeros) {
      const F32x16 zero = F32x16::load(groups + kPanels * kGroupFloats);
      sum = fma(F32x16::splat(-sum_a), zero, sum);
    }
    if constexpr (kWhole) sum = sum * unit;
    if constexpr (kScales == DequantScales::kNone) {
      total = total + sum;
    } else {
      total = fma(sum, F32x16::load(groups), total);
    }
  }

  template <DequantScales kScales, bool kZeros>
  TILEWRIGHT_INLINE void whole_block(const char* digits, const char* const (&b)[kPanels], const float* groups,
                                     F32x16 (&total)[kPanels][kRows]) const {
    constexpr bool kGrouped = kScales == DequantScales::kGroups;
    // One row of long sums would wait for its additions; short ones run beside each other.
    constexpr int kChains = kNibbles && !kGrouped && kRows * kPanels == 1 ? 2 : 1;
    const Bytes bytes;
    DigitSums<kChains> sums[kPanels][kRows];
    const auto start = [&](int part) __attribute__((always_inline)) {
      unroll<kPanels * kRows>([&](auto i) __attribute__((always_inline)) {
        sums[i / kRows][i % kRows].start(digits + i % kRows * blocking_.digit_bytes, part);
      });
    };
    const auto finish = [&](int part, const float* at) __attribute__((always_inline)) {
      unroll<kPanels * kRows>([&](auto i) __attribute__((always_inline)) {
        const char* const row = digits + i % kRows * blocking_.digit_bytes;
        const F32x16 unit = F32x16::splat(read_as<float>(row + PackedDigitBlock::kUnit));
        const float sum_a = kZeros ? read_as<float>(row + PackedDigitBlock::kSums + 4 * part) : 0;
        add_sum<kScales, kZeros>(sums[i / kRows][i % kRows].template total<kNibbles && kGrouped>(), unit, sum_a,
                                 at + i / kRows * kGroupFloats, total[i / kRows][i % kRows]);
      });
    };
    const auto group_step = [&](int group) __attribute__((always_inline)) {
      if constexpr (kGrouped) start(group);
      unroll<kGroupLines>([&](auto line) __attribute__((always_inline)) {
        const int64 quad = group * kGroupLines + line.value;
        unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          const I32x16 words = held(I32x16::load(b[p] + quad * 64));
          if constexpr (kNibbles) {
            const I32x16 even = bytes.even(words), odd = bytes.odd(words);
            unroll<kRows>([&](auto r) __attribute__((always_inline)) {
              const char* const row = digits + r * blocking_.digit_bytes;
              sums[p][r].template add<0, 2>(row, quad, even);
              sums[p][r].template add<1, 2>(row, quad, odd);
            });
          } else {
            // 128 values of K are two lines of a plane.
            const I32x16 all = words ^ I32x16::splat(static_cast<int>(0x80808080u));
            unroll<kRows>([&](auto r) __attribute__((always_inline)) {
              sums[p][r].template add<0, 2>(digits + r * blocking_.digit_bytes, quad, all);
            });
          }
        });
      });
      if constexpr (kGrouped) finish(group, groups + group * kPanelColumns);
    };
    // Sums of a block stay in their registers when there is no loop; groups begin new ones.
    if constexpr (kGrouped || kRows > 1 || !kNibbles) {
      if constexpr (!kGrouped) start(kAll);
#pragma GCC unroll 1
      for (int group = 0; group < kDequantGroups; ++group) group_step(group);
    } else {
      start(kAll);
      unroll<kDequantGroups>([&](auto group) __attribute__((always_inline)) { group_step(group); });
    }
    if constexpr (!kGrouped) finish(kAll, groups);
  }

  template <DequantScales kScales, bool kZeros>
  TILEWRIGHT_INLINE void float_block(const char* a, const char* const (&b)[kPanels], const float* groups,
                                     F32x16 (&total)[kPanels][kRows]) const {
    constexpr bool kGrouped = kScales == DequantScales::kGroups;
    const Nibbles nibbles;
    F32x16 sums[kPanels][kRows];
    const auto start = [&]() __attribute__((always_inline)) {
      unroll<kPanels * kRows>([&](auto i)
                                  __attribute__((always_inline)) { sums[i / kRows][i % kRows] = F32x16::splat(0); });
    };
    const auto finish = [&](int part, const float* at) __attribute__((always_inline)) {
      unroll<kPanels * kRows>([&](auto i) __attribute__((always_inline)) {
        const float sum_a = kZeros ? read_as<float>(a + i % kRows * blocking_.row_bytes + kFloatSums + 4 * part) : 0;
        add_sum<kScales, kZeros>(sums[i / kRows][i % kRows], F32x16::splat(1), sum_a, at + i / kRows * kGroupFloats,
                                 total[i / kRows][i % kRows]);
      });
    };
    if constexpr (!kGrouped) start();
#pragma GCC unroll 1
    for (int group = 0; group < kDequantGroups; ++group) {
      if constexpr (kGrouped) start();
#pragma GCC unroll 1
      for (int line = group * kGroupLines; line < (group + 1) * kGroupLines; ++line) {
        unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          const I32x16 words = held(I32x16::load(b[p] + line * 64));
          unroll<kLineK>([&](auto j) __attribute__((always_inline)) {
            const F32x16 value = [&]() __attribute__((always_inline)) {
              if constexpr (kNibbles) {
                return nibbles.template get<j.value>(words);
              } else {
                return widen_in_word<kType, j.value>(words);
              }
            }();
            unroll<kRows>([&](auto r) __attribute__((always_inline)) {
              const char* const at = a + r * blocking_.row_bytes + (line * kLineK + j.value) * 4;
              sums[p][r] = fma(F32x16::splat(read_as<float>(at)), value, sums[p][r]);
            });
          });
        });
      }
      if constexpr (kGrouped) finish(group, groups + group * kPanelColumns);
    }
    if constexpr (!kGrouped) finish(kAll, groups);
  }

  struct NoTable {};
  template <bool kNibble, DType kOf>
  struct Tables {
    using Bytes = NibbleBytes<kOf>;
    using Nibbles = NibbleFloats<kOf>;
  };
  template <DType kOf>
  struct Tables<false, kOf> {
    using Bytes = NoTable;
    using Nibbles = NoTable;
  };
  using Bytes = typename Tables<kNibbles, kType>::Bytes;
  using Nibbles = typename Tables<kNibbles, kType>::Nibbles;

  const GemmScaledArgs& scaled_;
  const GemmArgs& args_;
  const GemvDequantPackedCpuBlocking blocking_;
  const PackedLayout layout_;
  const int64 unit_;
  int64 rows_ = 0;  // of A that are arranged
  int every_ = 0;   // scales of a block
  float* acc_;
  char *a_, *digits_;
  float* groups_;  // scales, then zero points, of the panels that are multiplied
};

template <GemvDequantPackedCpuConfig kConfig>
void gemv_dequant_packed_cpu(const GemmScaledArgs& args, unsigned unit, unsigned units) {
  static_assert(gemv_dequant_packed_cpu_refusal(kConfig) == nullptr);
  GemvDequantPackedCpuUnit<kConfig>(args, unit, units).run();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
