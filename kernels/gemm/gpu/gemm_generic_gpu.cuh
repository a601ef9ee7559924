// SPDX-License-Identifier: MIT
// gemm_generic_gpu: the kernel that is typed at run time, for every GPU. Any dtypes that widen to f32 exactly, any
// strides, packed or plain B, scales and zero points of any groups, any epilogue, any sizes, no workspace. Every other kernel may refuse a
// problem because this one does not.
//
// A block widens 32 x 32 pieces of A and B to f32 in shared memory, times the scales of their groups; each thread keeps four
// sums. The sum over k runs in order, one fused multiply-add a product. int8 without such scales: the sum of a piece is below
// 2^24 and exact in f32; pieces are collected in 64 bits.
#pragma once

#include "gemm/gemm_packed_fragments.hpp"
#include "gemm/gemm_scale_args.hpp"
#include "gemm/gpu/gemm_generic_shape.hpp"
#include "gemm/gpu/gemm_tile_store_gpu.cuh"
#include "tile/gpu/block.hpp"

namespace tilewright {

__device__ __forceinline__ float generic_element(const void* data, int64 index, DType dtype) {
  if (dtype == DType::kF4E2M1) {
    const unsigned char pair = static_cast<const unsigned char*>(data)[index >> 1];
    return widen(e2m1x2{pair}, static_cast<int>(index & 1));
  }
  if (dtype == DType::kI4 || dtype == DType::kU4) {
    const unsigned char pair = static_cast<const unsigned char*>(data)[index >> 1];
    const int half = static_cast<int>(index & 1);
    return dtype == DType::kI4 ? widen(i4x2{pair}, half) : widen(u4x2{pair}, half);
  }
  const auto* bytes = static_cast<const unsigned char*>(data) + index;
  switch (dtype) {
    case DType::kF32: return static_cast<const float*>(data)[index];
    case DType::kF16: return widen_f16(static_cast<const unsigned short*>(data)[index]);
    case DType::kBf16: return widen_bf16(static_cast<const unsigned short*>(data)[index]);
    case DType::kI8: return static_cast<float>(static_cast<signed char>(*bytes));
    case DType::kF8E4M3: return widen(e4m3{*bytes});
    case DType::kF8E5M2: return widen(e5m2{*bytes});
    case DType::kF8E4M3Fnuz: return widen(e4m3fnuz{*bytes});
    case DType::kF8E5M2Fnuz: return widen(e5m2fnuz{*bytes});
    case DType::kE8M0: return widen(e8m0{*bytes});
    default: return 0;  // the host lets no other dtype through
  }
}

// The scale, or the zero point, of a row of A or a column of B at k.
__device__ __forceinline__ float generic_scale(const GemmBlockScale& s, int64 batch, int64 outer, int64 k) {
  return generic_element(s.data, batch * s.stride_batch + outer / s.outer * s.stride_outer + k / s.k * s.stride_k,
                         s.dtype);
}

// Among packed panels.
__device__ __forceinline__ int64 packed_index(DType dtype, int64 all_k, int64 k, int64 n) {
  const int kp = packed_kp(dtype), size = dtype_bits(dtype) / 8;
  return n / kPanelColumns * (packed_panel_bytes(dtype, all_k) / size) +
         (k / kp * kPanelColumns + n % kPanelColumns) * kp + k % kp;
}
// B[batch, k, n] of packed weights: of fragments, or of panels, by its index from the first one.
__device__ __forceinline__ float packed_element(const char* entry, DType dtype, int64 all_k, int64 k, int64 n) {
  if (dtype_bits(dtype) == 4) {
    const unsigned word = reinterpret_cast<const unsigned*>(entry)[fragment_word(dtype, all_k, k, n)];
    const auto code = static_cast<unsigned char>(fragment_code(dtype, k, word));
    return generic_element(&code, 0, dtype);
  }
  return generic_element(entry, packed_index(dtype, all_k, k, n), dtype);
}

struct GenericPlace {
  int64 batch, m0, n0;  // n0: column of D
};

__device__ __forceinline__ void generic_load(const GemmScaledArgs& scaled, const GenericPlace& p, int64 k0,
                                             GenericTile& tile, int thread) {
  const GemmArgs& args = scaled.gemm;
  const GateMode gate = args.epilogue.gate;
  const int64 out_n = gate == GateMode::kNone ? args.n : args.n / 2;
  const char* packed = static_cast<const char*>(args.b) + p.batch * args.stride_b_batch;
  const bool has_scale_a = scaled.scale.a.data != nullptr, has_scale_b = scaled.scale.b.data != nullptr;
  const bool has_zero_b = scaled.zero_b.data != nullptr;
#pragma unroll 1
  for (int i = thread; i < kGenericTile * kGenericTile; i += kGenericThreads) {
    const int row = i / kGenericTile, column = i % kGenericTile;
    // A: neighbouring threads along K.
    const int64 m = p.m0 + row, a_k = k0 + column;
    const bool has_a = m < args.m && a_k < args.k;
    float a = 0;
    if (has_a) {
      a = generic_element(args.a, p.batch * args.stride_a_batch + m * args.stride_a_m + a_k * args.stride_a_k,
                          args.a_dtype);
      if (has_scale_a) a = __fmul_rn(a, generic_scale(scaled.scale.a, p.batch, m, a_k));
    }
    tile.a[row][column] = a;
    // B: along N, unless its neighbours in memory lie along K.
    const bool along_k = args.stride_b_k == 1 && !args.b_packed;
    const int k_in = along_k ? column : row, n_in = along_k ? row : column;
    const int half = kGenericTile / 2;
    const int64 b_k = k0 + k_in;
    int64 n = p.n0 + n_in;
    bool has_n = n < out_n;
    if (gate == GateMode::kSeparated) {
      has_n = p.n0 + n_in % half < out_n;
      n = p.n0 + n_in % half + (n_in < half ? 0 : out_n);
    } else if (gate == GateMode::kInterleaved) {
      n = 2 * p.n0 + n_in;
      has_n = n < args.n;
    }
    float value = 0;
    if (has_n && b_k < args.k) {
      value = args.b_packed
                  ? packed_element(packed, args.b_dtype, args.k, b_k, n)
                  : generic_element(args.b, p.batch * args.stride_b_batch + b_k * args.stride_b_k + n * args.stride_b_n,
                                    args.b_dtype);
      if (has_zero_b) value -= generic_scale(scaled.zero_b, p.batch, n, b_k);
      if (has_scale_b) value = __fmul_rn(value, generic_scale(scaled.scale.b, p.batch, n, b_k));
    }
    tile.b[k_in][n_in] = value;
  }
}

template <GateMode kGate>
__device__ __forceinline__ void generic_store(const GemmArgs& args, const GenericPlace& p, const GenericTile& tile,
                                              int thread) {
  constexpr GemmEpilogueConfig kConfig{EpilogueKind::kFull, Activation::kNone, kGate, DType::kNone};
  const GemmEpilogue<kConfig> epilogue(args.epilogue, args.m, args.n, p.batch);
  const int64 left = args.m - p.m0;
  store_sums<kConfig, kGenericTile, kGenericThreads>(epilogue, &tile.sums[0][0], kGenericPitch, p.m0, p.n0, args.n,
                                                     left < kGenericTile ? static_cast<int>(left) : kGenericTile,
                                                     thread);
}

__device__ __forceinline__ void generic_tile(const GemmScaledArgs& scaled, const GenericPlace& p, GenericTile& tile,
                                             int thread) {
  const GemmArgs& args = scaled.gemm;
  const bool integer = args.a_dtype == DType::kI8 && scaled.scale.a.data == nullptr && scaled.scale.b.data == nullptr;
  const int row = thread / 8, column = thread % 8 * 4;
  float sums[4] = {};
  int64 totals[4] = {};
#pragma unroll 1
  for (int64 k0 = 0; k0 < args.k; k0 += kGenericTile) {
    __syncthreads();
    generic_load(scaled, p, k0, tile, thread);
    __syncthreads();
    const int depth = args.k - k0 < kGenericTile ? static_cast<int>(args.k - k0) : kGenericTile;
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = fmaf(tile.a[row][k], tile.b[k][column + i], sums[i]);
    }
    if (!integer) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) totals[i] += static_cast<int>(sums[i]), sums[i] = 0;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) tile.sums[row][column + i] = integer ? __ll2float_rn(totals[i]) : sums[i];
  __syncthreads();
  switch (args.epilogue.gate) {
    case GateMode::kNone: generic_store<GateMode::kNone>(args, p, tile, thread); break;
    case GateMode::kSeparated: generic_store<GateMode::kSeparated>(args, p, tile, thread); break;
    case GateMode::kInterleaved: generic_store<GateMode::kInterleaved>(args, p, tile, thread); break;
  }
}

__device__ __forceinline__ void gemm_generic_gpu(const GemmScaledArgs& scaled) {
  const GemmArgs& args = scaled.gemm;
  auto& tile = *reinterpret_cast<GenericTile*>(dynamic_shared());
  const GenericTiles tiles = gemm_generic_tiles(args.m, args.n, args.epilogue.gate);
#pragma unroll 1
  for (int64 unit = blockIdx.x; unit < args.batch * tiles.m * tiles.n; unit += args.block_m) {
    const GenericPlace p{unit / tiles.n / tiles.m, unit / tiles.n % tiles.m * kGenericTile, unit % tiles.n * tiles.out};
    generic_tile(scaled, p, tile, static_cast<int>(threadIdx.x));
    __syncthreads();
  }
}

}  // namespace tilewright
