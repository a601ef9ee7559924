// SPDX-License-Identifier: MIT
// elementwise_gpu: rows to another type, with a sum or a product on the way; all of a row is read before any of it is written, where it
// stays in registers. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void elementwise_gpu(const RowArgs& given) {
  RowInput<kConfig> input(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    input.start(row);
    const auto make = [&](long long n, int count, Piece& p, int j) {
      input.own(n, count, p, j);
      if (!input.adds()) return;
      const RowArgs& args = anew(row.args);
      Piece b;
      if (args.single) {
        load_piece<kConfig.residual>(input.residual, args.residual.dtype, 0, count > 0 ? 1 : 0, b);
        for_elements([&](int i) { b.v[i] = b.v[0]; });
      } else {
        input.other(n, count, b, j);
      }
      if (args.arithmetic == Arithmetic::kMul) return for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], b.v[i]); });
      for_elements([&](int i) { p.v[i] = __fadd_rn(p.v[i], b.v[i]); });
    };
    if constexpr (kConfig.pieces > 0) row.template each<true>(make, [](long long, int, Piece&) {});
    store_row<kConfig>(row, [&](long long n, int count, Piece& p) {
      if constexpr (kConfig.pieces == 0) make(n, count, p, 0);
    });
  });
}

}  // namespace tilewright
