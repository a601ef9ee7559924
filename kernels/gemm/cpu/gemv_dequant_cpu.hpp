// SPDX-License-Identifier: MIT
// gemv_dequant_cpu: few rows of f16 or bf16 (M <= 16) times weights of 4 or 8 bits, bound by reading the weights once. Plain
// weights with k contiguous, whole bytes a row; scales of 32, 64 or 128 of K, with zero points or without, or none.
//
// A block of 128 of K is widened in registers and multiplied by A, which lies in the order that widening gives; the sum of
// each group is scaled as it is added. 16 partial sums, added as a tree at the end ("groups16:<mma>"). 4-bit zero points
// multiply the sum of A of their lanes and come off the group's sum, 8-bit ones come off each value.
#pragma once

#include "gemm/cpu/gemv_cpu.hpp"
#include "gemm/cpu/gemv_dequant_digits_cpu.hpp"
#include "gemm/cpu/gemv_dequant_scales_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// How 4-bit elements are widened; bytes need nothing.
struct NoNibbles {};
template <DType kType, bool kNibbles, bool kWords, bool kBytes = false>
struct NibblesOf {
  using Type = NoNibbles;
};
template <DType kType>
struct NibblesOf<kType, true, false, true> {
  using Type = NibbleBytes<kType>;
};
template <DType kType>
struct NibblesOf<kType, true, false> {
  using Type = NibbleFloats<kType>;
};
template <DType kType>
struct NibblesOf<kType, true, true> {
  using Type = NibbleWords<kType>;
};

template <GemvDequantCpuConfig kConfig>
class GemvDequantCpuUnit {
 public:
  TILEWRIGHT_INLINE GemvDequantCpuUnit(const GemmScaledArgs& scaled, unsigned unit, unsigned units)
      : scaled_(scaled),
        args_(scaled.gemm),
        blocking_(gemv_dequant_cpu_blocking(kConfig, gemm_cpu_sizes(scaled.gemm), units)),
        blocks_(dequant_blocks(scaled.gemm.k)),
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
      arrange(batch);
      for (int64 n = n_begin; n < n_end; n += s.block_out) {
        run_block(batch, n, blocking::smaller(n_end, n + s.block_out));
      }
    }
  }

 private:
  static constexpr DType kType = kConfig.dtype;
  static constexpr bool kNibbles = dtype_bits(kType) == 4, kDot = kConfig.mma == CpuMma::kDotBf16;
  static constexpr bool kWhole = kConfig.mma == CpuMma::kDotI8;
  static constexpr int kRows = kConfig.rows, kColumns = kConfig.columns;
  static constexpr int kBlockBytes = kDequantBlock * dtype_bits(kType) / 8;
  static constexpr int64 kABlock = dequant_block_bytes(kConfig);

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

  TILEWRIGHT_INLINE void load_block(int64 batch, int64 m, int64 block, float (&x)[kDequantBlock]) {
    const char* row = static_cast<const char*>(args_.a) + (batch * args_.stride_a_batch + m * args_.stride_a_m) * 2;
    if (kDot || args_.a_dtype == DType::kBf16) {
      load_block_of<DType::kBf16>(row, block * kDequantBlock, x);
    } else {
      load_block_of<DType::kF16>(row, block * kDequantBlock, x);
    }
  }

  // A as the multiplication wants it. A block has digits when those of all rows that are multiplied together have.
  void arrange(int64 batch) {
    const bool together = scaled_.scale.b.data == nullptr || scaled_.scale.b.k == kDequantBlock;
    for (int64 first = 0; first < args_.m; first += kRows) {
      const int64 rows = blocking::smaller(kRows, args_.m - first);
      for (int64 block = 0; block < blocks_; ++block) {
        alignas(64) float x[kDequantBlock];
        if constexpr (kWhole) {
          char* const to = digits_ + first * blocking_.digit_bytes + block * DigitBlock::kBytes;
          int whole = 1;
          for (int64 r = 0; r < rows && whole != 0; ++r) {
            load_block(batch, first + r, block, x);
            whole = store_digits<kType>(x, together, to + r * blocking_.digit_bytes) ? 1 : 0;
          }
          __builtin_memcpy(to + DigitBlock::kWhole, &whole, sizeof(whole));
          if (whole != 0) continue;
        }
        for (int64 r = 0; r < rows; ++r) {
          load_block(batch, first + r, block, x);
          arrange_block(x, a_ + (first + r) * blocking_.row_bytes + block * kABlock);
        }
      }
    }
  }

  // A block of A in the order of widened elements; behind it its sums lane by lane.
  TILEWRIGHT_INLINE void arrange_block(const float (&x)[kDequantBlock], char* to) {
    if constexpr (!kNibbles) {
      __builtin_memcpy(to, x, sizeof(x));
      return;
    }
    auto* const floats = reinterpret_cast<float*>(to);
    auto* const words = reinterpret_cast<unsigned short*>(to);
    auto* const sums = reinterpret_cast<float*>(to + kABlock - 64);
    for (int lane = 0; lane < 16; ++lane) {
      const float* eight = x + 8 * lane;
      for (int i = 0; i < 8; ++i) {
        if constexpr (kDot) {
          words[i % 4 * 32 + 2 * lane + i / 4] =
              static_cast<unsigned short>(__builtin_bit_cast(unsigned, eight[i]) >> 16);
        } else {
          floats[i * 16 + lane] = eight[i];
        }
      }
      sums[lane] = ((eight[0] + eight[1]) + (eight[2] + eight[3])) + ((eight[4] + eight[5]) + (eight[6] + eight[7]));
    }
  }

  // Columns [begin, end) of D.
  void run_block(int64 batch, int64 begin, int64 end) {
    const GemvCpuBlocking& s = blocking_.grid;
    ColumnSegment segments[2];
    const int count = column_segments(args_.epilogue.gate, args_.n, begin, end, segments);
    for (int i = 0; i < count; ++i) multiply(batch, segments[i], acc_ + i * s.segment_columns);
    float* up = acc_ + s.segment_columns + (count == 2 ? segments[1].skip : 0);
    gemm_epilogue<false>(args_.epilogue, args_.n, batch, 0, args_.m, begin, end - begin, acc_, up, s.acc_stride);
  }

  void multiply(int64 batch, const ColumnSegment& segment, float* acc) {
    const int64 first = segment.panel * kPanelColumns;
    const int64 last = blocking::smaller(args_.n, first + segment.panels * kPanelColumns);
    const GemmBlockScale &scale = scaled_.scale.b, &zero = scaled_.zero_b;
    const bool has_scale = scale.data != nullptr, has_zero = zero.data != nullptr;
    const int every = has_scale && scale.k == kDequantBlock ? 1 : kDequantGroups;
    for (int64 n = first + segment.skip; n < last; n += kColumns) {
      const char* column[kColumns];
      for (int j = 0; j < kColumns; ++j) {
        // Past the last column it is read again; its results fall into padding.
        const int64 at = blocking::smaller(n + j, last - 1);
        column[j] = static_cast<const char*>(args_.b) +
                    (batch * args_.stride_b_batch + at * args_.stride_b_n) * dtype_bits(kType) / 8;
        float* const groups = groups_ + j * blocking_.group_floats;
        if (has_scale) load_block_groups(scale, batch, at, args_.k, blocks_, every, groups);
        if (has_zero) {
          load_block_groups(zero, batch, at, args_.k, blocks_, every, groups + kColumns * blocking_.group_floats);
        }
      }
      for (int64 g = 0; g < blocking_.grid.row_groups; ++g) {
        const char* a = a_ + g * kRows * blocking_.row_bytes;
        const char* digits = digits_ + g * kRows * blocking_.digit_bytes;
        float* c = acc + g * kRows * blocking_.grid.acc_stride + (n - first);
        if (!has_scale) {
          dot_columns<DequantScales::kNone, false>(a, digits, column, c);
        } else if (every == 1) {
          has_zero ? dot_columns<DequantScales::kBlock, true>(a, digits, column, c)
                   : dot_columns<DequantScales::kBlock, false>(a, digits, column, c);
        } else {
          has_zero ? dot_columns<DequantScales::kGroups, true>(a, digits, column, c)
                   : dot_columns<DequantScales::kGroups, false>(a, digits, column, c);
        }
      }
    }
  }

  static constexpr int kChains = dequant_chains(kConfig);
  struct Sums {
    F32x16 chain[kRows][kChains];
    TILEWRIGHT_INLINE void clear() {
      unroll<kRows * kChains>(
          [&](auto i) __attribute__((always_inline)) { chain[i / kChains][i % kChains] = F32x16::splat(0); });
    }
    template <int r>
    TILEWRIGHT_INLINE F32x16 total() const {
      if constexpr (kChains == 4) return (chain[r][0] + chain[r][1]) + (chain[r][2] + chain[r][3]);
      if constexpr (kChains == 2) return chain[r][0] + chain[r][1];
      return chain[r][0];
    }
  };

  // sums += a block of A times one of B, of 4-bit elements.
  template <class Nibbles>
  TILEWRIGHT_INLINE void add_nibbles(const Nibbles& nibbles, const char* a, const char* b, Sums& sums) {
    const I32x16 words = held(I32x16::load(b));
    unroll<Nibbles::kValues>([&](auto j) __attribute__((always_inline)) {
      const auto value = nibbles.template get<j.value>(words);
      unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        const char* from = a + r * blocking_.row_bytes + j * 64;
        F32x16& sum = sums.chain[r][j % kChains];
        if constexpr (kDot) {
          sum = dot_bf16(sum, I32x16::load(from), value);
        } else {
          sum = fma(F32x16::load(from), value, sum);
        }
      });
    });
  }
  // The same for 32 elements of 8 bits, those of group kGroup, less their zero point.
  template <int kGroup, bool kZeros>
  TILEWRIGHT_INLINE void add_bytes(const char* a, const char* b, float zero, Sums& sums) {
    unroll<2>([&](auto half) __attribute__((always_inline)) {
      F32x16 value = widen_bytes<kType>(b + kGroup * 32 + half * 16);
      if constexpr (kZeros) value = value - F32x16::splat(zero);
      unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        const char* from = a + r * blocking_.row_bytes + kGroup * 128 + half * 64;
        F32x16& sum = sums.chain[r][(2 * kGroup + half) % kChains];
        sum = fma(F32x16::load(from), value, sum);
      });
    });
  }

  template <DequantScales kScales, bool kZeros>
  void dot_columns(const char* a, const char* digits, const char* const (&columns)[kColumns], float* c) {
    const Nibbles nibbles;
    const Bytes bytes;
    F32x16 total[kColumns][kRows];
    unroll<kColumns * kRows>([&](auto i)
                                 __attribute__((always_inline)) { total[i / kRows][i % kRows] = F32x16::splat(0); });
    constexpr int kEvery = kScales == DequantScales::kGroups ? kDequantGroups : 1;
    const float* scales = groups_;
    const float* zeros = groups_ + kColumns * blocking_.group_floats;

    // The same of digits, which are read at `at`; 4-bit zero points alone.
    const auto whole_step = [&](const char* const(&from)[kColumns], const char* at) __attribute__((always_inline)) {
      unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
        const float* scale = scales + j * blocking_.group_floats;
        const float* zero = zeros + j * blocking_.group_floats;
        const auto add = [&](auto r, F32x16 sum, F32x16 factor) __attribute__((always_inline)) {
          sum = sum * digit_unit(at + r * blocking_.digit_bytes);
          total[j][r] = kScales == DequantScales::kNone ? total[j][r] + sum : fma(sum, factor, total[j][r]);
        };
        if constexpr (kNibbles && kWhole) {
          const I32x16 words = held(I32x16::load(from[j]));
          const I32x16 even = bytes.even(words), odd = bytes.odd(words);
          const auto spread = [&](const float* groups) __attribute__((always_inline)) {
            return kEvery == 1 ? F32x16::splat(groups[0]) : spread_four(groups);
          };
          F32x16 less = F32x16::splat(0), factor = less;
          if constexpr (kZeros) less = less - spread(zero);
          if constexpr (kScales != DequantScales::kNone) factor = spread(scale);
          unroll<kRows>([&](auto r) __attribute__((always_inline)) {
            const char* const block = at + r * blocking_.digit_bytes;
            F32x16 sum = multiply_digits<kType>(block, even, odd);
            if constexpr (kZeros) sum = fma(F32x16::load(block + DigitBlock::kSums), less, sum);
            add(r, sum, factor);
          });
        } else if constexpr (kWhole) {
          const I32x16 sign = I32x16::splat(static_cast<int>(0x80808080u));
          const I32x16 lines[2] = {I32x16::load(from[j]) ^ sign, I32x16::load(from[j] + 64) ^ sign};
          unroll<kRows>([&](auto r) __attribute__((always_inline)) {
            const char* const block = at + r * blocking_.digit_bytes;
            if constexpr (kEvery == 1) {
              const float factor = kScales == DequantScales::kNone ? 1 : scale[0];
              add(r, multiply_digits<0, 2>(block, lines), F32x16::splat(factor));
            } else {
              add(r, multiply_digits<0, 1>(block, lines), spread_two(scale));
              add(r, multiply_digits<1, 1>(block, lines), spread_two(scale + 2));
            }
          });
        }
      });
    };

    const auto step = [&](const char* const(&from)[kColumns], const char* at) __attribute__((always_inline)) {
      unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
        const float* scale = scales + j * blocking_.group_floats;
        const float* zero = zeros + j * blocking_.group_floats;
        Sums sums;
        sums.clear();
        const auto add = [&](F32x16 factor) __attribute__((always_inline)) {
          unroll<kRows>([&](auto r) __attribute__((always_inline)) {
            total[j][r] = fma(sums.template total<r.value>(), factor, total[j][r]);
          });
        };
        if constexpr (kNibbles) {
          add_nibbles(nibbles, at, from[j], sums);
          if constexpr (kZeros) {
            const F32x16 less = F32x16::splat(0) - (kEvery == 1 ? F32x16::splat(zero[0]) : spread_four(zero));
            unroll<kRows>([&](auto r) __attribute__((always_inline)) {
              F32x16& sum = sums.chain[r][0];
              sum = fma(F32x16::load(at + r * blocking_.row_bytes + kABlock - 64), less, sum);
            });
          }
        } else {
          unroll<4>([&](auto g) __attribute__((always_inline)) {
            if constexpr (kEvery != 1 && g.value != 0) sums.clear();
            add_bytes<g.value, kZeros>(at, from[j], kZeros ? zero[kEvery == 1 ? 0 : g.value] : 0, sums);
            if constexpr (kEvery != 1) add(F32x16::splat(scale[g.value]));
          });
        }
        if constexpr (kScales == DequantScales::kNone) {
          unroll<kRows>([&](auto r) __attribute__((always_inline)) {
            total[j][r] = total[j][r] + sums.template total<r.value>();
          });
        } else if constexpr (kEvery == 1) {
          add(F32x16::splat(scale[0]));
        } else if constexpr (kNibbles) {
          add(spread_four(scale));
        }
      });
    };
    const auto block_step = [&](const char* const(&from)[kColumns]) __attribute__((always_inline)) {
      if constexpr (kWhole && (kNibbles || !kZeros)) {
        if (__builtin_expect(has_digits(digits), 1)) {
          whole_step(from, digits);
        } else {
          step(from, a);
        }
        digits += DigitBlock::kBytes;
      } else {
        step(from, a);
      }
      a += kABlock;
      scales += kEvery;
      zeros += kEvery;
    };

    const char* column[kColumns];
    unroll<kColumns>([&](auto j) __attribute__((always_inline)) { column[j] = columns[j]; });
    int64 left = args_.k;
    for (; left >= kDequantBlock; left -= kDequantBlock) {
      unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
        if constexpr (kConfig.prefetch > 0) __builtin_prefetch(column[j] + kConfig.prefetch * 64);
        if constexpr (kConfig.prefetch > 0 && !kNibbles) __builtin_prefetch(column[j] + kConfig.prefetch * 64 + 64);
      });
      block_step(column);
      unroll<kColumns>([&](auto j) __attribute__((always_inline)) { column[j] += kBlockBytes; });
    }
    if (left > 0) {
      alignas(64) char tail[kColumns][kBlockBytes] = {};
      const char* tails[kColumns];
      unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
        __builtin_memcpy(tail[j], column[j], static_cast<unsigned long>((left * dtype_bits(kType) + 7) / 8));
        tails[j] = tail[j];
      });
      block_step(tails);
    }
    unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      unroll<kColumns>([&](auto j) __attribute__((always_inline)) {
        c[r * blocking_.grid.acc_stride + j] = sum_lanes(total[j][r]);
      });
    });
  }

  using Nibbles = typename NibblesOf<kType, kNibbles, kDot>::Type;
  using Bytes = typename NibblesOf<kType, kNibbles && kWhole, false, true>::Type;

  const GemmScaledArgs& scaled_;
  const GemmArgs& args_;
  const GemvDequantCpuBlocking blocking_;
  const int64 blocks_, unit_;
  float* acc_;
  char *a_, *digits_;
  float* groups_;  // scales, then zero points, of the columns that are multiplied
};

template <GemvDequantCpuConfig kConfig>
void gemv_dequant_cpu(const GemmScaledArgs& args, unsigned unit, unsigned units) {
  static_assert(gemv_dequant_cpu_refusal(kConfig) == nullptr);
  GemvDequantCpuUnit<kConfig>(args, unit, units).run();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
