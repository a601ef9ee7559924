// SPDX-License-Identifier: MIT
// The run-time epilogue. It takes a block of accumulators that lies in the first or second level of cache and works on
// it row by row, in place: each operation that is present is one pass over the row, vectorised over n.
//
// Rows of the block must be readable and writable up to a multiple of 16 columns.
#pragma once

#include "gemm/gemm_activation_cpu.hpp"
#include "gemm/gemm_args.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// body(TypeTag<...>{}) for the types that an operand or D may have.
template <class Body>
TILEWRIGHT_INLINE void with_float_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32: return body(TypeTag<DType::kF32>{});
    case DType::kF16: return body(TypeTag<DType::kF16>{});
    case DType::kBf16: return body(TypeTag<DType::kBf16>{});
    default: return;  // the host lets no other dtype through
  }
}

// x[i] = op(x[i], operand[batch, m, n0 + i]) for i in [0, count).
template <class Op>
TILEWRIGHT_INLINE void combine_row(float* x, int64 count, const EpilogueOperand& operand, int64 batch, int64 m,
                                   int64 n0, Op op) {
  with_float_type(operand.dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    constexpr int kSize = kBytes<kType>;
    const char* data = static_cast<const char*>(operand.data) +
                       (batch * operand.stride_batch + m * operand.stride_m + n0 * operand.stride_n) * kSize;
    if (operand.stride_n == 0) {
      const F32x16 y = F32x16::splat(load_one<kType>(data));
      for (int64 i = 0; i < count; i += kVec) op(F32x16::load(x + i), y).store(x + i);
      return;
    }
    if (operand.stride_n == 1) {
      int64 i = 0;
      for (; i + kVec <= count; i += kVec) op(F32x16::load(x + i), load_vec<kType>(data + i * kSize)).store(x + i);
      if (i < count) {
        op(F32x16::load(x + i), load_tail<kType>(data + i * kSize, static_cast<int>(count - i))).store(x + i);
      }
      return;
    }
    for (int64 i = 0; i < count; i += kVec) {
      alignas(64) float y[kVec] = {};
      for (int64 j = i; j < count && j < i + kVec; ++j) y[j - i] = load_one<kType>(data + j * operand.stride_n * kSize);
      op(F32x16::load(x + i), F32x16::load(y)).store(x + i);
    }
  });
}

template <class Op>
TILEWRIGHT_INLINE void map_row(float* x, int64 count, Op op) {
  for (int64 i = 0; i < count; i += kVec) op(F32x16::load(x + i)).store(x + i);
}

// Columns [n0, n0 + count) of the linear part. i32 sums become f32 here.
template <bool kInteger>
inline void linear_row(const GemmEpilogueArgs& e, float* x, int64 count, int64 batch, int64 m, int64 n0) {
  if constexpr (kInteger) {
    for (int64 i = 0; i < count; i += kVec) to_float(I32x16::load(x + i)).store(x + i);
  }
  const auto multiply = [](F32x16 a, F32x16 b) __attribute__((always_inline)) { return a * b; };
  const auto add = [](F32x16 a, F32x16 b) __attribute__((always_inline)) { return a + b; };
  if (e.alpha != 1.0f) {
    const F32x16 alpha = F32x16::splat(e.alpha);
    map_row(x, count, [=](F32x16 v) { return v * alpha; });
  }
  if (e.scale_a.data != nullptr) combine_row(x, count, e.scale_a, batch, m, n0, multiply);
  if (e.scale_b.data != nullptr) combine_row(x, count, e.scale_b, batch, m, n0, multiply);
  if (e.c.data != nullptr && e.beta != 0.0f) {
    const F32x16 beta = F32x16::splat(e.beta);
    combine_row(x, count, e.c, batch, m, n0, [=](F32x16 a, F32x16 b) { return fma(beta, b, a); });
  }
  if (e.bias.data != nullptr) combine_row(x, count, e.bias, batch, m, n0, add);
}

inline void activate_row(float* x, int64 count, Activation activation, float low, float high) {
  if (activation == Activation::kNone) return;
  with_activation(activation, low, high, [&](auto activate) { map_row(x, count, activate); });
}

// x = activation(x) * up
inline void gate_row(float* x, const float* up, int64 count, Activation activation, float low, float high) {
  with_activation(activation, low, high, [&](auto activate) {
    for (int64 i = 0; i < count; i += kVec) (activate(F32x16::load(x + i)) * F32x16::load(up + i)).store(x + i);
  });
}

// `even` may be `pairs` itself or lie before it: reading runs ahead of writing.
inline void split_pairs(const float* pairs, float* even, float* odd, int64 count) {
  for (int64 i = 0; i < count; i += kVec) {
    alignas(64) float both[2 * kVec];
    F32x16::load(pairs + 2 * i).store(both);
    F32x16::load(pairs + 2 * i + kVec).store(both + kVec);
    for (int j = 0; j < kVec; ++j) {
      even[i + j] = both[2 * j];
      odd[i + j] = both[2 * j + 1];
    }
  }
}

inline void steps_row(const GemmEpilogueArgs& e, float* x, int64 count, int64 batch, int64 m, int64 n0) {
  for (int s = 0; s < e.step_count; ++s) {
    const EpilogueStep& step = e.steps[s];
    switch (step.kind) {
      case StepKind::kNone: break;
      case StepKind::kActivation: activate_row(x, count, step.activation, step.low, step.high); break;
      case StepKind::kAdd:
        combine_row(x, count, step.operand, batch, m, n0, [](F32x16 a, F32x16 b) { return a + b; });
        break;
      case StepKind::kMultiply:
        combine_row(x, count, step.operand, batch, m, n0, [](F32x16 a, F32x16 b) { return a * b; });
        break;
    }
  }
}

inline void store_row(const GemmEpilogueArgs& e, const float* x, int64 count, int64 batch, int64 m, int64 n0) {
  with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    constexpr int kSize = kBytes<kType>;
    char* d = static_cast<char*>(e.d) + (batch * e.stride_d_batch + m * e.stride_d_m + n0 * e.stride_d_n) * kSize;
    if (e.stride_d_n == 1) {
      int64 i = 0;
      for (; i + kVec <= count; i += kVec) store_vec<kType>(d + i * kSize, F32x16::load(x + i));
      if (i < count) store_tail<kType>(d + i * kSize, F32x16::load(x + i), static_cast<int>(count - i));
      return;
    }
    for (int64 i = 0; i < count; ++i) store_one<kType>(d + i * e.stride_d_n * kSize, x[i]);
  });
}

// A block of rows [m0, m0 + rows) and columns [n0, n0 + columns) of D. `acc`: the sums of these columns of B, `stride`
// elements from row to row; with a separated gate those of the gate half, `up` those of the up half; with an
// interleaved gate 2 * columns of them.
template <bool kInteger>
void gemm_epilogue(const GemmEpilogueArgs& e, int64 n, int64 batch, int64 m0, int64 rows, int64 n0, int64 columns,
                   float* acc, float* up, int64 stride) {
  for (int64 r = 0; r < rows; ++r) {
    float* x = acc + r * stride;
    const int64 m = m0 + r;
    switch (e.gate) {
      case GateMode::kNone:
        linear_row<kInteger>(e, x, columns, batch, m, n0);
        activate_row(x, columns, e.activation, e.low, e.high);
        break;
      case GateMode::kSeparated: {
        float* y = up + r * stride;
        linear_row<kInteger>(e, x, columns, batch, m, n0);
        linear_row<kInteger>(e, y, columns, batch, m, n / 2 + n0);
        gate_row(x, y, columns, e.activation, e.low, e.high);
        break;
      }
      case GateMode::kInterleaved:
        linear_row<kInteger>(e, x, 2 * columns, batch, m, 2 * n0);
        // Pieces, so that the odd columns fit the stack.
        for (int64 i = 0; i < columns; i += 64) {
          alignas(64) float odd[64];
          const int64 count = columns - i < 64 ? columns - i : 64;
          split_pairs(x + 2 * i, x + i, odd, count);
          gate_row(x + i, odd, count, e.activation, e.low, e.high);
        }
        break;
    }
    steps_row(e, x, columns, batch, m, n0);
    store_row(e, x, columns, batch, m, n0);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
