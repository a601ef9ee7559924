// SPDX-License-Identifier: MIT
// From a tile of sums in shared memory to D: each thread takes neighbouring columns of D and every so many rows, so that
// what varies by column is read once and D is written in wide pieces. Any epilogue, any gate.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "tile/gpu/vector4.hpp"

namespace tilewright {

// Eight neighbours, aligned to 16 bytes.
template <class Sum>
__device__ __forceinline__ void load_sums(const Sum* from, Sum (&x)[8]) {
  const Vector4<Sum> low = load_vector4(from), high = load_vector4(from + 4);
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

// sums[r * pitch + c], `rows` of them, of kColumns columns of B (separated gate: the up half follows the gate half); the
// first is D[m0, n0]. pitch and kColumns are multiples of 4 and 8, sums is aligned to 16 bytes. The block has synchronised since they were written.
template <GemmEpilogueConfig kConfig, int kColumns, int kThreads, class Sum>
__device__ __forceinline__ void store_sums(const GemmEpilogue<kConfig>& epilogue, const Sum* sums, int pitch, int64 m0,
                                           int64 n0, int64 all_n, int rows, int thread) {
  constexpr int kOut = kConfig.gate == GateMode::kNone ? kColumns : kColumns / 2;
  constexpr int kVec = kConfig.gate == GateMode::kInterleaved ? 4 : 8;  // columns of D a thread
  constexpr int kPerRow = kOut / kVec;
  static_assert(kOut % kVec == 0 && kThreads % kPerRow == 0);
  using Columns = typename GemmEpilogue<kConfig>::Columns;

  // What varies by column: for 8 columns of B, with a separated gate twice.
  constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated,
                 kInterleaved = kConfig.gate == GateMode::kInterleaved;
  const int column = thread % kPerRow * kVec;
  const int64 n = n0 + column;
  if (n >= epilogue.out_n()) return;
  Columns first[4], second[kSeparated ? 4 : 1];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[i] = epilogue.columns((kInterleaved ? 2 * n : n) + 2 * i);
    if constexpr (kSeparated) second[i] = epilogue.columns(all_n / 2 + n + 2 * i);
  }

#pragma unroll 1
  for (int r = thread / kPerRow; r < rows; r += kThreads / kPerRow) {
    const auto row = epilogue.row(m0 + r);
    const Sum* from = sums + r * pitch + (kInterleaved ? 2 * column : column);
    Sum x[8];
    load_sums(from, x);
    Sum y[8];
    if constexpr (kSeparated) load_sums(from + kOut, y);
    float values[kVec];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kInterleaved) {
        values[i] = epilogue.gated(row, first[i], x[2 * i], x[2 * i + 1]);
      } else if constexpr (kSeparated) {
        const GemmPair pair = epilogue.gated(row, first[i], second[i], x[2 * i], x[2 * i + 1], y[2 * i], y[2 * i + 1]);
        values[2 * i] = pair.first, values[2 * i + 1] = pair.second;
      } else {
        const GemmPair pair = epilogue.linear(row, first[i], x[2 * i], x[2 * i + 1]);
        values[2 * i] = pair.first, values[2 * i + 1] = pair.second;
      }
    }
    epilogue.store(m0 + r, n, values);
  }
}

}  // namespace tilewright
