// SPDX-License-Identifier: MIT
// The run-time epilogue. It takes a tile of accumulators that lies in the first level of cache and works on it in place:
// each operation that is present is one pass over the tile, vectorised over n; what is absent costs one branch a tile.
//
// Rows of the tile must be readable and writable up to a multiple of 16 columns.
#pragma once

#include "gemm/cpu/gemm_activation_cpu.hpp"
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

// The tile that the passes work on: rows [m, m + rows) of batch entry `batch`.
struct EpilogueTile {
  int64 batch, m, rows;
  int64 stride;  // elements from row to row
  bool stream;   // lines of D are aligned, and written past the caches
};

// x[r][i] = op(x[r][i], operand[batch, m + r, n + i]) for i in [0, count).
template <class Op>
TILEWRIGHT_INLINE void combine(const EpilogueTile& t, float* x, int64 count, const EpilogueOperand& operand, int64 n,
                               Op op) {
  with_float_type(operand.dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    constexpr int kSize = kBytes<kType>;
    const char* data = static_cast<const char*>(operand.data) +
                       (t.batch * operand.stride_batch + t.m * operand.stride_m + n * operand.stride_n) * kSize;
    const int64 stride_m = operand.stride_m * kSize, stride_n = operand.stride_n * kSize;
    for (int64 r = 0; r < t.rows; ++r, x += t.stride, data += stride_m) {
      if (operand.stride_n == 0) {
        const F32x16 y = F32x16::splat(load_one<kType>(data));
        for (int64 i = 0; i < count; i += kVec) op(F32x16::load(x + i), y).store(x + i);
        continue;
      }
      if (operand.stride_n == 1) {
        int64 i = 0;
        for (; i + kVec <= count; i += kVec) op(F32x16::load(x + i), load_vec<kType>(data + i * kSize)).store(x + i);
        if (i < count) {
          op(F32x16::load(x + i), load_tail<kType>(data + i * kSize, static_cast<int>(count - i))).store(x + i);
        }
        continue;
      }
      for (int64 i = 0; i < count; i += kVec) {
        alignas(64) float y[kVec] = {};
        for (int64 j = i; j < count && j < i + kVec; ++j) y[j - i] = load_one<kType>(data + j * stride_n);
        op(F32x16::load(x + i), F32x16::load(y)).store(x + i);
      }
    }
  });
}

template <class Op>
TILEWRIGHT_INLINE void map(const EpilogueTile& t, float* x, int64 count, Op op) {
  for (int64 r = 0; r < t.rows; ++r, x += t.stride) {
    for (int64 i = 0; i < count; i += kVec) op(F32x16::load(x + i)).store(x + i);
  }
}

inline void multiply_by(const EpilogueTile& t, float* x, int64 count, const EpilogueOperand& operand, int64 n) {
  combine(t, x, count, operand, n, [](F32x16 a, F32x16 b) __attribute__((always_inline)) { return a * b; });
}
inline void add_to(const EpilogueTile& t, float* x, int64 count, const EpilogueOperand& operand, float factor,
                   int64 n) {
  const F32x16 f = F32x16::splat(factor);
  combine(t, x, count, operand, n, [=](F32x16 a, F32x16 b) __attribute__((always_inline)) { return fma(f, b, a); });
}

// ---- The linear part ----

// What most layers ask for, in one pass: alpha, a scale a row, a scale and a bias a column. What is absent multiplies by 1
// or adds -0, which changes no bit; operations and their order are those of the passes in linear().
inline bool is_linear_by_columns(const GemmEpilogueArgs& e) {
  const auto by_columns = [](const EpilogueOperand& o) {
    return o.data == nullptr || (o.stride_m == 0 && (o.stride_n == 0 || o.stride_n == 1));
  };
  return (e.c.data == nullptr || e.beta == 0.0f) && (e.scale_a.data == nullptr || e.scale_a.stride_n == 0) &&
         by_columns(e.scale_b) && by_columns(e.bias);
}

// That and nothing after it, to rows of D that lie side by side.
inline bool is_only_linear(const GemmEpilogueArgs& e) {
  return e.gate == GateMode::kNone && e.activation == Activation::kNone && e.step_count == 0 && e.stride_d_n == 1 &&
         is_linear_by_columns(e);
}

// Columns [n, n + 16) of an operand, `left` of which are there, or `absent`.
inline F32x16 read_columns(const EpilogueOperand& operand, int64 batch, int64 n, int64 left, float absent) {
  F32x16 columns = F32x16::splat(absent);
  if (operand.data == nullptr) return columns;
  with_float_type(operand.dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    const char* from =
        static_cast<const char*>(operand.data) + (batch * operand.stride_batch + n * operand.stride_n) * kBytes<kType>;
    columns = operand.stride_n == 0 ? F32x16::splat(load_one<kType>(from))
              : left >= kVec        ? load_vec<kType>(from)
                                    : load_tail<kType>(from, static_cast<int>(left));
  });
  return columns;
}

// The scales of up to kLinearRows rows, or 1: f32, `step` bytes apart.
inline constexpr int kLinearRows = 64;
struct RowScales {
  const char* data;
  int64 step;
  float other[kLinearRows];  // what is not f32 in memory
};
inline void read_rows(const EpilogueOperand& operand, int64 batch, int64 m, int64 rows, RowScales& to) {
  to.data = reinterpret_cast<const char*>(to.other), to.step = 0;
  to.other[0] = 1.0f;
  if (operand.data == nullptr) return;
  with_float_type(operand.dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    const char* from =
        static_cast<const char*>(operand.data) + (batch * operand.stride_batch + m * operand.stride_m) * kBytes<kType>;
    if constexpr (kType == DType::kF32) {
      to.data = from, to.step = operand.stride_m * kBytes<kType>;
      return;
    }
    to.step = kBytes<DType::kF32>;
    for (int64 r = 0; r < rows; ++r) to.other[r] = load_one<kType>(from + r * operand.stride_m * kBytes<kType>);
  });
}

// fma, because a compiler may contract a product and a sum, and then bits depend on which pass it was.
TILEWRIGHT_INLINE F32x16 scale_and_add(F32x16 v, F32x16 row, F32x16 scale, F32x16 bias) {
  return fma(F32x16::splat(1.0f), bias, v * row * scale);
}
// Sixteen of the linear part.
template <bool kInteger>
TILEWRIGHT_INLINE F32x16 linear_value(const float* sums, F32x16 alpha, F32x16 row, F32x16 scale, F32x16 bias) {
  F32x16 v = F32x16::load(sums);
  if constexpr (kInteger) v = to_float(as_int(v));
  return scale_and_add(v * alpha, row, scale, bias);
}

// rows(begin, end, i, left, value): value(sums, r, v) is the linear part of 16 columns of row r, the v-th of kStrips from
// column i on, of which `left` columns are there.
template <bool kInteger, int kStrips, class Rows>
TILEWRIGHT_INLINE void linear_by_columns(const GemmEpilogueArgs& e, const EpilogueTile& t, int64 count, int64 n,
                                         Rows rows) {
  const F32x16 alpha = F32x16::splat(e.alpha);
  RowScales scales;
  for (int64 begin = 0; begin < t.rows; begin += kLinearRows) {
    const int64 end = begin + kLinearRows < t.rows ? begin + kLinearRows : t.rows;
    read_rows(e.scale_a, t.batch, t.m + begin, end - begin, scales);
    for (int64 i = 0; i < count; i += kStrips * kVec) {
      F32x16 scale[kStrips], bias[kStrips];
      for (int v = 0; v < kStrips; ++v) {
        const int64 column = i + v * kVec;
        scale[v] = read_columns(e.scale_b, t.batch, n + column, count - column, 1.0f);
        bias[v] = read_columns(e.bias, t.batch, n + column, count - column, -0.0f);
      }
      rows(begin, end, i, count - i, [&](const float* sums, int64 r, int v) __attribute__((always_inline)) {
        const F32x16 row = F32x16::splat(read_as<float>(scales.data + (r - begin) * scales.step));
        return linear_value<kInteger>(sums + v * kVec, alpha, row, scale[v], bias[v]);
      });
    }
  }
}

// Columns [n, n + count) of the linear part. i32 sums become f32 here.
template <bool kInteger>
TILEWRIGHT_INLINE void linear(const GemmEpilogueArgs& e, const EpilogueTile& t, float* x, int64 count, int64 n) {
  if (is_linear_by_columns(e)) {
    const bool nothing = !kInteger && e.alpha == 1.0f && e.scale_a.data == nullptr && e.scale_b.data == nullptr &&
                         e.bias.data == nullptr;
    if (nothing) return;
    const auto rows = [&](int64 begin, int64 end, int64 i, int64, auto value) __attribute__((always_inline)) {
      float* sums = x + begin * t.stride + i;
      for (int64 r = begin; r < end; ++r, sums += t.stride) value(sums, r, 0).store(sums);
    };
    return linear_by_columns<kInteger, 1>(e, t, count, n, rows);
  }
  if constexpr (kInteger) {
    map(t, x, count, [](F32x16 v) __attribute__((always_inline)) { return to_float(as_int(v)); });
  }
  if (e.alpha != 1.0f) {
    const F32x16 alpha = F32x16::splat(e.alpha);
    map(t, x, count, [=](F32x16 v) __attribute__((always_inline)) { return v * alpha; });
  }
  if (e.scale_a.data != nullptr) multiply_by(t, x, count, e.scale_a, n);
  if (e.scale_b.data != nullptr) multiply_by(t, x, count, e.scale_b, n);
  if (e.c.data != nullptr && e.beta != 0.0f) add_to(t, x, count, e.c, e.beta, n);
  if (e.bias.data != nullptr) add_to(t, x, count, e.bias, 1.0f, n);
}

// ---- Activation, gate, steps, storing ----

inline void activate(const EpilogueTile& t, float* x, int64 count, Activation activation, float low, float high) {
  with_activation(activation, low, high, [&](auto function) { map(t, x, count, function); });
}

// x = activation(x) * up
inline void gate(const EpilogueTile& t, float* x, const float* up, int64 count, const GemmEpilogueArgs& e) {
  with_activation(e.activation, e.low, e.high, [&](auto function) {
    for (int64 r = 0; r < t.rows; ++r, x += t.stride, up += t.stride) {
      for (int64 i = 0; i < count; i += kVec) (function(F32x16::load(x + i)) * F32x16::load(up + i)).store(x + i);
    }
  });
}

// x[i] = activation(x[2 i]) * x[2 i + 1]: reading runs ahead of writing.
inline void gate_pairs(const EpilogueTile& t, float* x, int64 count, const GemmEpilogueArgs& e) {
  with_activation(e.activation, e.low, e.high, [&](auto function) {
    for (int64 r = 0; r < t.rows; ++r, x += t.stride) {
      for (int64 i = 0; i < count; i += kVec) {
        alignas(64) float even[kVec], odd[kVec];
        for (int j = 0; j < kVec; ++j) even[j] = x[2 * (i + j)], odd[j] = x[2 * (i + j) + 1];
        (function(F32x16::load(even)) * F32x16::load(odd)).store(x + i);
      }
    }
  });
}

inline void run_step(const EpilogueTile& t, float* x, int64 count, const EpilogueStep& step, int64 n) {
  switch (step.kind) {
    case StepKind::kNone: return;
    case StepKind::kActivation: return activate(t, x, count, step.activation, step.low, step.high);
    case StepKind::kAdd: return add_to(t, x, count, step.operand, 1.0f, n);
    case StepKind::kMultiply: return multiply_by(t, x, count, step.operand, n);
  }
}

// A unit's part of D from this size on does not stay in the second level of cache, so whole lines of it are written past
// the caches: a line that is read to be written pushes a line of A out there, which the multiplier then waits for.
inline constexpr int64 kStreamBytesD = 2ll << 20;

// That, where tiles of `tile` columns begin and end with a line. rows, columns: of the unit.
inline bool streams_d(const GemmEpilogueArgs& e, int64 rows, int64 columns, int64 tile) {
  const int64 size = e.d_dtype == DType::kF32 ? 4 : 2;
  const auto whole = [](int64 bytes) { return bytes % 64 == 0; };
  return kStreamsLines && rows * columns * size >= kStreamBytesD && e.stride_d_n == 1 &&
         whole(reinterpret_cast<long long>(e.d)) && whole(e.stride_d_m * size) && whole(e.stride_d_batch * size) &&
         whole(tile * size);
}

// Columns [0, count) of a row of D, which lie side by side. value(i): the sixteen from i on.
template <DType kType, class Value>
TILEWRIGHT_INLINE void store_columns(char* d, bool stream, int64 count, Value value) {
  constexpr int kSize = kBytes<kType>, kLine = kLineVectors<kType>;
  int64 i = 0;
  if (stream) {
    for (; i + kLine * kVec <= count; i += kLine * kVec) {
      F32x16 line[kLine];
      unroll<kLine>([&](auto v) __attribute__((always_inline)) { line[v] = value(i + v * kVec); });
      stream_line<kType>(d + i * kSize, line);
    }
  }
  for (; i + kVec <= count; i += kVec) store_vec<kType>(d + i * kSize, value(i));
  if (i < count) store_tail<kType>(d + i * kSize, value(i), static_cast<int>(count - i));
}

inline void store_tile(const GemmEpilogueArgs& e, const EpilogueTile& t, const float* x, int64 count, int64 n) {
  with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    constexpr int kSize = kBytes<kType>;
    char* d = static_cast<char*>(e.d) + (t.batch * e.stride_d_batch + t.m * e.stride_d_m + n * e.stride_d_n) * kSize;
    for (int64 r = 0; r < t.rows; ++r, x += t.stride, d += e.stride_d_m * kSize) {
      if (e.stride_d_n == 1) {
        store_columns<kType>(d, t.stream, count,
                             [&](int64 i) __attribute__((always_inline)) { return F32x16::load(x + i); });
        continue;
      }
      for (int64 i = 0; i < count; ++i) store_one<kType>(d + i * e.stride_d_n * kSize, x[i]);
    }
  });
}

// The product of a separated gate straight to D when nothing follows it, with the activation that nearly all models have. False:
// something does, or it is another one.
inline bool store_gated(const GemmEpilogueArgs& e, const EpilogueTile& t, const float* x, const float* up, int64 count,
                        int64 n) {
  if (e.activation != Activation::kSilu || e.step_count > 0 || e.stride_d_n != 1) return false;
  with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    char* d = static_cast<char*>(e.d) + (t.batch * e.stride_d_batch + t.m * e.stride_d_m + n) * kBytes<kType>;
    for (int64 r = 0; r < t.rows; ++r, x += t.stride, up += t.stride, d += e.stride_d_m * kBytes<kType>) {
      store_columns<kType>(d, t.stream, count, [&](int64 i) __attribute__((always_inline)) {
        return silu(F32x16::load(x + i)) * F32x16::load(up + i);
      });
    }
  });
  return true;
}

// The linear part straight to D when nothing follows it. False: something does.
template <bool kInteger>
bool store_linear(const GemmEpilogueArgs& e, const EpilogueTile& t, const float* x, int64 count, int64 n) {
  if (!is_only_linear(e)) return false;
  with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    constexpr int kSize = kBytes<kType>, kLine = kLineVectors<kType>;
    const int64 stride_d = e.stride_d_m * kSize;
    char* d = static_cast<char*>(e.d) + (t.batch * e.stride_d_batch + t.m * e.stride_d_m + n) * kSize;
    if (t.stream && count % (kLine * kVec) == 0) {
      const auto lines = [&](int64 begin, int64 end, int64 i, int64, auto value) __attribute__((always_inline)) {
        const float* sums = x + begin * t.stride + i;
        char* to = d + begin * stride_d + i * kSize;
        for (int64 r = begin; r < end; ++r, sums += t.stride, to += stride_d) {
          F32x16 line[kLine];
          unroll<kLine>([&](auto v) __attribute__((always_inline)) { line[v] = value(sums, r, v); });
          stream_line<kType>(to, line);
        }
      };
      return linear_by_columns<kInteger, kLine>(e, t, count, n, lines);
    }
    linear_by_columns<kInteger, 1>(
        e, t, count, n, [&](int64 begin, int64 end, int64 i, int64 left, auto value) __attribute__((always_inline)) {
          const float* sums = x + begin * t.stride + i;
          char* to = d + begin * stride_d + i * kSize;
          if (left >= kVec) {
            for (int64 r = begin; r < end; ++r, sums += t.stride, to += stride_d)
              store_vec<kType>(to, value(sums, r, 0));
            return;
          }
          for (int64 r = begin; r < end; ++r, sums += t.stride, to += stride_d) {
            store_tail<kType>(to, value(sums, r, 0), static_cast<int>(left));
          }
        });
  });
  return true;
}

// Rows [m, m + rows) and columns [n, n + columns) of D. `acc`: the sums of these columns of B, `stride` elements from row
// to row; with a separated gate those of the gate half, `up` those of the up half; with an interleaved gate 2 * columns
// of them. `all_n`: columns of B. `stream`: as in EpilogueTile.
template <bool kInteger>
void gemm_epilogue(const GemmEpilogueArgs& e, int64 all_n, int64 batch, int64 m, int64 rows, int64 n, int64 columns,
                   float* acc, float* up, int64 stride, bool stream = false) {
  const EpilogueTile tile = {batch, m, rows, stride, stream};
  if (store_linear<kInteger>(e, tile, acc, columns, n)) return;
  switch (e.gate) {
    case GateMode::kNone:
      linear<kInteger>(e, tile, acc, columns, n);
      if (e.activation != Activation::kNone) activate(tile, acc, columns, e.activation, e.low, e.high);
      break;
    case GateMode::kSeparated:
      linear<kInteger>(e, tile, acc, columns, n);
      linear<kInteger>(e, tile, up, columns, all_n / 2 + n);
      if (store_gated(e, tile, acc, up, columns, n)) return;
      gate(tile, acc, up, columns, e);
      break;
    case GateMode::kInterleaved:
      linear<kInteger>(e, tile, acc, 2 * columns, 2 * n);
      gate_pairs(tile, acc, columns, e);
      break;
  }
  for (int s = 0; s < e.step_count; ++s) run_step(tile, acc, columns, e.steps[s], n);
  store_tile(e, tile, acc, columns, n);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
