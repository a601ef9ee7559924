// SPDX-License-Identifier: MIT
// quantize_gpu: rows, times what smooths columns, rotated or not, over scales that are given or found. Typed by its config, or at run
// time.
#pragma once

#include "quantize/chance_gpu.cuh"
#include "quantize/hadamard_gpu.cuh"
#if !defined(__AMDGCN__)
#include "quantize/whole_groups_gpu.cuh"
#endif
#include "tile/gpu/row_blocks.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void quantize_rows(const RowArgs& args) {
  RowInput<kConfig> input(args);
  // use(make): with what makes a row's pieces.
  const auto with_values = [&](GpuRow<kConfig>& row, auto&& use) {
    input.start(row);
    use([&](long long n, int count, Piece& p, int j) {
      input.added(n, count, p, j);
      smooth_columns<kConfig>(row.args, n, count, p);
      rotate_block<kConfig>(row.args, p);
    });
  };
  if (find_tensor_scale<kConfig>(args, with_values)) return;
#if !defined(__AMDGCN__)
  if constexpr (has_thread_groups(kConfig)) return quantize_thread_groups<kConfig>(args);
  if constexpr (!has_thread_groups(kConfig))
#endif
    for_rows<kConfig>(args, [&](GpuRow<kConfig>& row) {
      with_values(row, [&](auto&& make) { store_row<kConfig>(row, make, RoundByChance<kConfig>{row.args}); });
    });
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void quantize_blocks(const RowArgs& args) {
  store_blocks<kConfig>(args, [&](Piece& p) { rotate_block<kConfig>(args, p); }, RoundByChance<kConfig>{args});
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void quantize_gpu(const RowArgs& args) {
  if constexpr (kConfig.quant == Quantisation::kBlock) {
    quantize_blocks<kConfig>(args);
  } else {
    if constexpr (kConfig.x == DType::kNone) {
      if (args.scale.quant == Quantisation::kBlock) return quantize_blocks<kConfig>(args);
    }
    quantize_rows<kConfig>(args);
  }
}

}  // namespace tilewright
