// SPDX-License-Identifier: MIT
// gemm_generic: the kernel that is typed at run time. Any dtypes that widen to f32 exactly, any strides, packed or plain
// B, scales and zero points of any groups, any epilogue, any sizes, no workspace; it needs nothing beyond baseline x86-64. Every other kernel
// may refuse a problem because this one does not.
//
// Blocks of A and B are widened to f32 on the stack, multiplied by the scales of their groups, and multiplied there. The sum
// over k runs in order. int8 without such scales: a block's sums are below 2^24 and exact in f32; they are collected in
// double, so no K is too long.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/cpu/gemm_epilogue_cpu.hpp"
#include "gemm/gemm_packed_layout.hpp"
#include "gemm/gemm_scale_args.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kGenericRows = 32;      // of A in a block
inline constexpr int kGenericOut = 64;       // columns of D in a block
inline constexpr int kGenericColumns = 128;  // columns of B in a block: two halves with a gate
inline constexpr int kGenericK = 128;        // k in a block: 128 products of int8 stay below 2^24
inline constexpr int kGenericStride = kGenericColumns + 16;

// body(TypeTag<...>{}) for the types that A and B may have.
template <class Body>
inline void with_input_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32: return body(TypeTag<DType::kF32>{});
    case DType::kF16: return body(TypeTag<DType::kF16>{});
    case DType::kBf16: return body(TypeTag<DType::kBf16>{});
    case DType::kI8: return body(TypeTag<DType::kI8>{});
    case DType::kF8E4M3: return body(TypeTag<DType::kF8E4M3>{});
    case DType::kF8E5M2: return body(TypeTag<DType::kF8E5M2>{});
    case DType::kF8E4M3Fnuz: return body(TypeTag<DType::kF8E4M3Fnuz>{});
    case DType::kF8E5M2Fnuz: return body(TypeTag<DType::kF8E5M2Fnuz>{});
    default: return;  // the host lets no other dtype through
  }
}

struct GenericBlock {
  alignas(64) float a[kGenericRows][kGenericK];
  alignas(64) float b[kGenericK][kGenericColumns];
  alignas(64) float acc[kGenericRows][kGenericStride];
  alignas(64) double sums[kGenericRows][kGenericColumns];  // int8
};

// Element `index` of a 4-bit type.
inline float generic_nibble(DType dtype, const void* data, int64 index) {
  const unsigned char pair = static_cast<const unsigned char*>(data)[index >> 1];
  const int half = static_cast<int>(index & 1);
  if (dtype == DType::kI4) return widen(i4x2{pair}, half);
  if (dtype == DType::kU4) return widen(u4x2{pair}, half);
  return widen(e2m1x2{pair}, half);
}

// The scale, or the zero point, of a row of A, or a column of B, at k.
inline float generic_scale(const GemmBlockScale& s, int64 batch, int64 outer, int64 k) {
  const int64 index = batch * s.stride_batch + outer / s.outer * s.stride_outer + k / s.k * s.stride_k;
  const char* data = static_cast<const char*>(s.data);
  switch (s.dtype) {
    case DType::kF32: return load_one<DType::kF32>(data + index * 4);
    case DType::kF16: return load_one<DType::kF16>(data + index * 2);
    case DType::kBf16: return load_one<DType::kBf16>(data + index * 2);
    case DType::kF8E4M3: return load_one<DType::kF8E4M3>(data + index);
    case DType::kI8: return load_one<DType::kI8>(data + index);
    case DType::kI4:
    case DType::kU4: return generic_nibble(s.dtype, data, index);
    default: return widen(e8m0{static_cast<unsigned char>(data[index])});
  }
}

// Columns [n0, n0 + columns) of B, from column `at` of the block on, less their zero points, times their scales. Groups
// begin with the block.
inline void generic_scale_b(const GemmScaledArgs& scaled, int64 batch, int64 n0, int columns, int64 k0, int k, int at,
                            GenericBlock& block) {
  const GemmBlockScale &s = scaled.scale.b, &zero = scaled.zero_b;
  if (s.data == nullptr) return;
  float factors[kGenericColumns], zeros[kGenericColumns] = {};
  for (int i = 0; i < k; ++i) {
    if (i % s.k == 0) {
      for (int j = 0; j < columns; ++j) factors[j] = generic_scale(s, batch, n0 + j, k0 + i);
    }
    if (zero.data != nullptr && i % s.k == 0) {
      for (int j = 0; j < columns; ++j) zeros[j] = generic_scale(zero, batch, n0 + j, k0 + i);
    }
    if (zero.data != nullptr) {
      for (int j = 0; j < columns; ++j) block.b[i][at + j] -= zeros[j];
    }
    for (int j = 0; j < columns; ++j) block.b[i][at + j] *= factors[j];
  }
}
inline void generic_scale_a(const GemmBlockScale& s, int64 batch, int64 m0, int rows, int64 k0, int k,
                            GenericBlock& block) {
  if (s.data == nullptr) return;
  for (int r = 0; r < rows; ++r) {
    float factor = 0;
    for (int i = 0; i < k; ++i) {
      if (i % s.k == 0) factor = generic_scale(s, batch, m0 + r, k0 + i);
      block.a[r][i] *= factor;
    }
  }
}

// A [rows, k0 ...] as f32.
inline void generic_load_a(const GemmArgs& args, int64 batch, int64 m0, int rows, int64 k0, int k,
                           GenericBlock& block) {
  if (dtype_bits(args.a_dtype) == 4) {
    const int64 first = batch * args.stride_a_batch + m0 * args.stride_a_m + k0 * args.stride_a_k;
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < k; ++i) {
        block.a[r][i] = generic_nibble(args.a_dtype, args.a, first + r * args.stride_a_m + i * args.stride_a_k);
      }
    }
    return;
  }
  with_input_type(args.a_dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    const char* a = static_cast<const char*>(args.a) +
                    (batch * args.stride_a_batch + m0 * args.stride_a_m + k0 * args.stride_a_k) * kBytes<kType>;
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < k; ++i) {
        block.a[r][i] = load_one<kType>(a + (r * args.stride_a_m + i * args.stride_a_k) * kBytes<kType>);
      }
    }
  });
}

// Columns [n0, n0 + columns) of B from column `at` of the block on.
inline void generic_load_b(const GemmArgs& args, int64 batch, int64 n0, int columns, int64 k0, int k, int at,
                           GenericBlock& block) {
  if (dtype_bits(args.b_dtype) == 4 && args.b_packed) {
    const PackedLayout layout = packed_layout(args.b_dtype, args.n, args.k);
    const char* const b = static_cast<const char*>(args.b) + batch * args.stride_b_batch;
    for (int j = 0; j < columns; ++j) {
      const int64 n = n0 + j;
      const char* const panel = b + n / kPanelColumns * layout.panel_bytes;
      for (int i = 0; i < k; ++i) {
        block.b[i][at + j] = generic_nibble(args.b_dtype, panel, layout.element(k0 + i, n % kPanelColumns));
      }
    }
    return;
  }
  if (dtype_bits(args.b_dtype) == 4) {
    const int64 first = batch * args.stride_b_batch + k0 * args.stride_b_k + n0 * args.stride_b_n;
    for (int j = 0; j < columns; ++j) {
      for (int i = 0; i < k; ++i) {
        block.b[i][at + j] = generic_nibble(args.b_dtype, args.b, first + i * args.stride_b_k + j * args.stride_b_n);
      }
    }
    return;
  }
  with_input_type(args.b_dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    constexpr int kSize = kBytes<kType>, kKp = packed_kp(kType);
    const char* b = static_cast<const char*>(args.b);
    if (args.b_packed) {
      b += batch * args.stride_b_batch;
      for (int j = 0; j < columns; ++j) {
        const int64 n = n0 + j;
        const char* panel = b + n / kPanelColumns * packed_panel_bytes(kType, args.k);
        for (int i = 0; i < k; ++i) {
          const int64 index = (k0 + i) / kKp * kPanelColumns * kKp + n % kPanelColumns * kKp + (k0 + i) % kKp;
          block.b[i][at + j] = load_one<kType>(panel + index * kSize);
        }
      }
      return;
    }
    b += (batch * args.stride_b_batch + k0 * args.stride_b_k + n0 * args.stride_b_n) * kSize;
    if (args.stride_b_k == 1) {
      for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < k; ++i) block.b[i][at + j] = load_one<kType>(b + (j * args.stride_b_n + i) * kSize);
      }
      return;
    }
    for (int i = 0; i < k; ++i) {
      for (int j = 0; j < columns; ++j) {
        block.b[i][at + j] = load_one<kType>(b + (i * args.stride_b_k + j * args.stride_b_n) * kSize);
      }
    }
  });
}

// acc += A B over k; columns is a multiple of 16.
template <int kRows>
TILEWRIGHT_INLINE void generic_rows(GenericBlock& block, int row, int columns, int k) {
  for (int c = 0; c < columns; c += kVec) {
    F32x16 acc[kRows];
    unroll<kRows>([&](auto i) __attribute__((always_inline)) { acc[i] = F32x16::load(&block.acc[row + i][c]); });
    for (int l = 0; l < k; ++l) {
      const F32x16 b = F32x16::load(&block.b[l][c]);
      unroll<kRows>(
          [&](auto i) __attribute__((always_inline)) { acc[i] = fma(F32x16::splat(block.a[row + i][l]), b, acc[i]); });
    }
    unroll<kRows>([&](auto i) __attribute__((always_inline)) { acc[i].store(&block.acc[row + i][c]); });
  }
}

inline void generic_multiply(GenericBlock& block, int rows, int columns, int k) {
  int r = 0;
  for (; r + 2 <= rows; r += 2) generic_rows<2>(block, r, columns, k);
  if (r < rows) generic_rows<1>(block, r, columns, k);
}

// Which rows a block has: row r of it is row first + r of A and of D.
struct ConsecutiveRows {
  int64 first;
  int count;

  void load(const GemmScaledArgs& scaled, int64 batch, int64 k0, int k, GenericBlock& block) const {
    generic_load_a(scaled.gemm, batch, first, count, k0, k, block);
    generic_scale_a(scaled.scale.a, batch, first, count, k0, k, block);
  }
  // store(row of the block, row of D, how many)
  template <class Store>
  void store(GenericBlock&, Store&& store) const {
    store(0, first, count);
  }
};

// The rows and columns [n0, n0 + out) of D.
template <class Rows>
inline void generic_block(const GemmScaledArgs& scaled, int64 batch, const Rows& rows, int64 n0, int out,
                          GenericBlock& block) {
  const GemmArgs& args = scaled.gemm;
  const GemmScaleArgs& scale = scaled.scale;
  const GateMode gate = args.epilogue.gate;
  const bool integer = args.a_dtype == DType::kI8 && scale.a.data == nullptr && scale.b.data == nullptr;
  const int source = gate == GateMode::kNone ? out : 2 * out;  // columns of B
  const int up = static_cast<int>(blocking::round_up(out, kVec));
  const int columns = gate == GateMode::kSeparated ? 2 * up : static_cast<int>(blocking::round_up(source, kVec));
  __builtin_memset(block.acc, 0, sizeof(block.acc));
  if (integer) __builtin_memset(block.sums, 0, sizeof(block.sums));
  if (columns != source) __builtin_memset(block.b, 0, sizeof(block.b));

  for (int64 k0 = 0; k0 < args.k; k0 += kGenericK) {
    const int k = static_cast<int>(blocking::smaller(kGenericK, args.k - k0));
    rows.load(scaled, batch, k0, k, block);
    const auto load_b = [&](int64 first, int count, int at) {
      generic_load_b(args, batch, first, count, k0, k, at, block);
      generic_scale_b(scaled, batch, first, count, k0, k, at, block);
    };
    switch (gate) {
      case GateMode::kNone: load_b(n0, out, 0); break;
      case GateMode::kInterleaved: load_b(2 * n0, 2 * out, 0); break;
      case GateMode::kSeparated:
        load_b(n0, out, 0);
        load_b(args.n / 2 + n0, out, up);
        break;
    }
    generic_multiply(block, rows.count, columns, k);
    if (!integer) continue;
    for (int r = 0; r < rows.count; ++r) {
      for (int c = 0; c < columns; ++c) {
        block.sums[r][c] += static_cast<double>(block.acc[r][c]);
        block.acc[r][c] = 0;
      }
    }
  }
  if (integer) {
    for (int r = 0; r < rows.count; ++r) {
      for (int c = 0; c < columns; ++c) block.acc[r][c] = static_cast<float>(block.sums[r][c]);
    }
  }
  rows.store(block, [&](int at, int64 m0, int count) {
    gemm_epilogue<false>(args.epilogue, args.n, batch, m0, count, n0, out, block.acc[at], &block.acc[at][up],
                         kGenericStride);
  });
}

inline void gemm_generic(const GemmScaledArgs& scaled, unsigned unit, unsigned units) {
  const GemmArgs& args = scaled.gemm;
  const int64 out_n = args.epilogue.gate == GateMode::kNone ? args.n : args.n / 2;
  if (args.m <= 0 || out_n <= 0 || args.batch <= 0) return;
  // Neighbouring blocks of columns share rows of A; units take consecutive blocks.
  const int64 m_blocks = blocking::ceil_div(args.m, kGenericRows), n_blocks = blocking::ceil_div(out_n, kGenericOut);
  const int64 blocks = args.batch * m_blocks * n_blocks;
  GenericBlock block;
  const int64 end = blocking::share_begin(blocks, units, unit + 1ll);
  for (int64 i = blocking::share_begin(blocks, units, unit); i < end; ++i) {
    const int64 n0 = i % n_blocks * kGenericOut, m0 = i / n_blocks % m_blocks * kGenericRows;
    const ConsecutiveRows rows{m0, static_cast<int>(blocking::smaller(kGenericRows, args.m - m0))};
    generic_block(scaled, i / (n_blocks * m_blocks), rows, n0,
                  static_cast<int>(blocking::smaller(kGenericOut, out_n - n0)), block);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
