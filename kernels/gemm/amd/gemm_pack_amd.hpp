// SPDX-License-Identifier: MIT
// Packs weights on an AMD GPU, in the layout of gemm_args.hpp: a workgroup makes a panel of an entry of the batch.
#pragma once

#include "gemm/amd/gemm_pack_amd_args.hpp"
#include "tile/gpu/block.hpp"

namespace tilewright {

// One element as it is.
__device__ __forceinline__ unsigned pack_element(const char* at, int size) {
  if (size == 4) return *reinterpret_cast<const unsigned*>(at);
  if (size == 2) return *reinterpret_cast<const unsigned short*>(at);
  return *reinterpret_cast<const unsigned char*>(at);
}

__device__ __forceinline__ void gemm_pack_amd(const GemmPackArgs& args) {
  const int size = dtype_bits(args.dtype) / 8, kp = packed_kp(args.dtype), unit = kp * size;
  const int64 panels = packed_panels(args.n), panel = blockIdx.x % panels, batch = blockIdx.x / panels;
  const int thread = static_cast<int>(threadIdx.x), column = thread % kPanelColumns;
  const int64 n = panel * kPanelColumns + column, lines = packed_lines(args.dtype, args.k);
  const char* from = static_cast<const char*>(args.b) + (batch * args.stride_b_batch + n * args.stride_b_n) * size;
  char* const entry = static_cast<char*>(args.packed) + batch * args.packed_batch_bytes;
  char* const to = entry + panel * packed_panel_bytes(args.dtype, args.k) + column * unit;
  int sum = 0;
#pragma unroll 1
  for (int64 line = thread / kPanelColumns; line < lines; line += kPackAmdThreads / kPanelColumns) {
    unsigned word = 0;
#pragma unroll 1
    for (int i = 0; i < kp; ++i) {
      const int64 k = line * kp + i;
      if (n >= args.n || k >= args.k) continue;
      const unsigned element = pack_element(from + k * args.stride_b_k * size, size);
      word |= element << (8 * size * i);
      sum += static_cast<signed char>(element);
    }
    char* const at = to + line * packed_line_bytes(args.dtype);
    if (unit == 4) {
      *reinterpret_cast<unsigned*>(at) = word;
    } else {
      *reinterpret_cast<unsigned short*>(at) = static_cast<unsigned short>(word);
    }
  }
  if (args.dtype != DType::kI8) return;
  // The column sums: those of the work-items that share a column, in their order.
  auto* const shared = reinterpret_cast<int*>(dynamic_shared());
  shared[thread] = sum;
  __syncthreads();
  if (thread >= kPanelColumns) return;
  int total = 0;
#pragma unroll 1
  for (int i = column; i < kPackAmdThreads; i += kPanelColumns) total += shared[i];
  reinterpret_cast<int*>(entry + panels * packed_panel_bytes(args.dtype, args.k))[n] = total;
}

}  // namespace tilewright
