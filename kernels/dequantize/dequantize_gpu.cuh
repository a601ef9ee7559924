// SPDX-License-Identifier: MIT
// dequantize_gpu: rows of codes, times scales that are given. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_codes.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void dequantize_row(const GpuRow<kConfig>& row) {
  const RowArgs& args = anew(row.args);
  constexpr bool kTyped = kConfig.x != DType::kNone;
  const DType type = kTyped ? kConfig.x : args.x.dtype;
  const Quantisation quant = kTyped ? kConfig.quant : args.scale.quant;
  const int group = kConfig.group > 0 ? kConfig.group : args.scale.group, mine = row.thread * kRowPiece;
  const char* const from = row_start<kConfig.x>(args.x, row.at);
  char* const to = row_start<kConfig.out>(args.out, row.at);
  const long long scale_at = scale_offset(args.scale, quant, row.at);

  if constexpr (fetches_rows(kConfig)) {
#pragma unroll
    for (int j = 0; j < kConfig.pieces; ++j) {
      const int n = j * GpuRow<kConfig>::kStep + mine;
      if (row.count_at(n) > 0) fetch_ahead(from + n * dtype_bits(type) / 8 + row.no_bytes());
    }
  }
  if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
  const float of_row = has_groups(quant) ? 0 : load_scale(args.scale, scale_at);
  const auto write = [&](long long n, int count, const CodeWords& codes) {
    if (count == 0) return;
    float scale = of_row;
    if (has_groups(quant)) scale = load_scale(args.scale, scale_at + n / group * args.scale.stride_group);
    Piece p;
    widen_codes(type, codes, p);
    for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], scale); });
    store_piece<kConfig.out, kConfig.whole>(to, args.out.dtype, n, count, p);
  };

  if constexpr (kConfig.pieces > 0) {
    // All of a thread's codes are asked for before the first is waited for.
    CodeWords codes[kConfig.pieces];
#pragma unroll
    for (int j = 0; j < kConfig.pieces; ++j) {
      const int n = j * GpuRow<kConfig>::kStep + mine;
      load_codes<kConfig.whole>(from, dtype_bits(type), n, row.count_at(n), codes[j]);
    }
#pragma unroll
    for (int j = 0; j < kConfig.pieces; ++j) {
      const int n = j * GpuRow<kConfig>::kStep + mine;
      write(n, row.count_at(n), codes[j]);
    }
  } else {
#pragma unroll 1
    for (long long n = mine; n < args.n; n += GpuRow<kConfig>::kStep) {
      CodeWords codes;
      load_codes<kConfig.whole>(from, dtype_bits(type), n, row.count_at(n), codes);
      write(n, row.count_at(n), codes);
    }
  }
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void dequantize_gpu(const RowArgs& args) {
  for_rows<kConfig>(args, [&](const GpuRow<kConfig>& row) { dequantize_row<kConfig>(row); });
}

}  // namespace tilewright
