// SPDX-License-Identifier: MIT
// D of the GPU kernels whose blocks each have the sums of `kRows` rows of the weights by a few rows of A.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"

namespace tilewright {

// The column of B that row i of a block is; of a separated gate the second half of the rows is up.
__device__ __forceinline__ int64 gemv_row_of(GateMode gate, int rows, int64 n, int block, int i) {
  if (gate != GateMode::kSeparated) return static_cast<int64>(block) * rows + i;
  const int64 d0 = static_cast<int64>(block) * (rows / 2);
  return i < rows / 2 ? d0 + i : n / 2 + d0 + i - rows / 2;
}

// kThreads of a block, of which this is number `thread`; a thread a pair of columns of D. `sum(token, i)`: of row i.
template <GemmEpilogueConfig kConfig, int kRows, int kThreads, class Sum>
__device__ __forceinline__ void write_gemv(const GemmArgs& args, int block, int batch, const Sum& sum,
                                           int thread = static_cast<int>(threadIdx.x)) {
  constexpr int kDColumns = kConfig.gate == GateMode::kNone ? kRows : kRows / 2;
  const GemmEpilogue<kConfig> epilogue(args.epilogue, args.m, args.n, batch);
  const int count = static_cast<int>(args.m), d0 = block * kDColumns;
#pragma unroll 1
  for (int i = thread; i < count * (kDColumns / 2); i += kThreads) {
    const int token = i / (kDColumns / 2), column = i % (kDColumns / 2) * 2;
    const auto row = epilogue.row(token);
    const auto of = [&](int j) { return sum(token, j); };
    const int n = d0 + column;
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      const int up = kRows / 2 + column;
      epilogue.store(token, n,
                     epilogue.gated(row, epilogue.columns(n), epilogue.columns(epilogue.out_n() + n), of(column),
                                    of(column + 1), of(up), of(up + 1)));
    } else if constexpr (kConfig.gate == GateMode::kInterleaved) {
      const int j = 2 * column;
      epilogue.store(token, n,
                     GemmPair{epilogue.gated(row, epilogue.columns(2 * n), of(j), of(j + 1)),
                              epilogue.gated(row, epilogue.columns(2 * n + 2), of(j + 2), of(j + 3))});
    } else {
      epilogue.store(token, n, epilogue.linear(row, epilogue.columns(n), of(column), of(column + 1)));
    }
  }
}

}  // namespace tilewright
