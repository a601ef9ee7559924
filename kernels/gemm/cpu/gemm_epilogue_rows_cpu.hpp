// SPDX-License-Identifier: MIT
// The epilogue of one tile a row at a time, for a kernel that runs it inside its next loop over k: a row is short enough
// to hide behind a step of the multiplier, and all lines of D that it writes are written whole.
//
// Values are those of gemm_epilogue bit for bit: the same operations in the same order.
#pragma once

#include "gemm/cpu/gemm_epilogue_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What it takes: a linear part by rows and columns, an activation or a separated gate, D with contiguous rows. Anything
// else is for gemm_epilogue.
inline bool epilogue_goes_by_rows(const GemmEpilogueArgs& e) {
  return e.gate != GateMode::kInterleaved && e.step_count == 0 && e.stride_d_n == 1 && is_linear_by_columns(e);
}

// A tile of D of up to kLinearRows rows and kMostColumns columns, a multiple of 16. Neither depends on the instance's tile:
// the library carries this compiled (gemm_support_cpu.hpp).
template <bool kInteger>
class EpilogueByRows {
 public:
  // Only where epilogue_goes_by_rows(e); arguments as those of gemm_epilogue.
  __attribute__((noinline)) void begin(const GemmEpilogueArgs& e, int64 all_n, int64 batch, int64 m, int64 rows,
                                       int64 n, int64 columns, const float* acc, const float* up, int64 stride,
                                       bool stream) {
    rows_ = rows, row_ = 0, columns_ = columns;
    stride_ = stride, sums_[0] = acc, sums_[1] = up, stream_ = stream;
    const int64 size = e.d_dtype == DType::kF32 ? 4 : 2;
    d_ = static_cast<char*>(e.d) + (batch * e.stride_d_batch + m * e.stride_d_m + n) * size;
    stride_d_ = e.stride_d_m * size;
    read_rows(e.scale_a, batch, m, rows, row_scales_);
    const int halves = e.gate == GateMode::kSeparated ? 2 : 1;
    for (int half = 0; half < halves; ++half) {
      for (int64 i = 0; i < columns; i += kVec) {
        const int64 column = half * (all_n / 2) + n + i;
        read_columns(e.scale_b, batch, column, kVec, 1.0f).store(scale_[half] + i);
        read_columns(e.bias, batch, column, kVec, -0.0f).store(bias_[half] + i);
      }
    }
  }

  // The next `count` rows, or as many as are left.
  __attribute__((noinline)) void run(const GemmEpilogueArgs& e, int64 count) {
    const int64 end = row_ + count < rows_ ? row_ + count : rows_;
    with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
      constexpr DType kType = decltype(type)::value;
      const F32x16 alpha = F32x16::splat(e.alpha);
      if (e.gate == GateMode::kNone && e.activation == Activation::kNone) {
        for (; row_ < end; ++row_) {
          store_row<kType>([&](int64 i) __attribute__((always_inline)) { return linear(0, alpha, i); });
        }
        return;
      }
      with_activation(e.activation, e.low, e.high, [&](auto function) {
        const bool gate = e.gate == GateMode::kSeparated;
        for (; row_ < end; ++row_) {
          store_row<kType>([&](int64 i) __attribute__((always_inline)) {
            const F32x16 x = function(linear(0, alpha, i));
            return gate ? x * linear(1, alpha, i) : x;
          });
        }
      });
    });
  }

 private:
  static constexpr int kMostColumns = 96;

  TILEWRIGHT_INLINE F32x16 linear(int half, F32x16 alpha, int64 i) const {
    const F32x16 row = F32x16::splat(read_as<float>(row_scales_.data + row_ * row_scales_.step));
    return linear_value<kInteger>(sums_[half] + row_ * stride_ + i, alpha, row, F32x16::load(scale_[half] + i),
                                  F32x16::load(bias_[half] + i));
  }
  template <DType kType, class Value>
  TILEWRIGHT_INLINE void store_row(Value value) {
    char* d = d_ + row_ * stride_d_;
    constexpr int kLine = kLineVectors<kType>;
    if (stream_) {
      for (int64 i = 0; i < columns_; i += kLine * kVec) {
        F32x16 line[kLine];
        unroll<kLine>([&](auto v) __attribute__((always_inline)) { line[v] = value(i + v * kVec); });
        stream_line<kType>(d + i * kBytes<kType>, line);
      }
      return;
    }
    for (int64 i = 0; i < columns_; i += kVec) store_vec<kType>(d + i * kBytes<kType>, value(i));
  }

  int64 rows_ = 0, row_ = 0, columns_, stride_, stride_d_;
  const float* sums_[2];  // of the gate half and of the up half
  char* d_;
  bool stream_;  // whole lines of D, past the caches
  RowScales row_scales_;
  alignas(64) float scale_[2][kMostColumns];
  alignas(64) float bias_[2][kMostColumns];
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
