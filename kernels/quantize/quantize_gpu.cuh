// SPDX-License-Identifier: MIT
// quantize_gpu: rows, times what smooths columns, over scales that are given or found. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void quantize_gpu(const RowArgs& args) {
  const RowColumns<kConfig> columns(args);
  const auto make = [&](const GpuRow<kConfig>& row) {
    RowInput<kConfig> input(row.args);
    input.start(row);
    return [&columns, input](long long n, int count, Piece& p, int j) {
      input.added(n, count, p, j);
      columns.scale(n, count, p, j);
    };
  };
  if (find_tensor_scale<kConfig>(args, make)) return;
  for_rows<kConfig>(args, [&](GpuRow<kConfig>& row) { store_row<kConfig>(row, make(row)); });
}

}  // namespace tilewright
