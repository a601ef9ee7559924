// SPDX-License-Identifier: MIT
// top_k_cpu: what is better than the k best so far, which few vectors have, is put aside; these are sorted. Typed by its config, or at run
// time.
#pragma once

#include "tile/cpu/row_best.hpp"
#include "top_k/top_k_args.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <DType kType, class Best>
TILEWRIGHT_INLINE void top_k_row(const TopKArgs& args, long long row) {
  const DType type = kType == DType::kNone ? args.dtype : kType;
  const char* const from = static_cast<const char*>(args.x) + row * args.stride * dtype_bits(type) / 8;
  Best best(args.k);
  for_pieces(top_k_length(args, row), [&](auto piece) __attribute__((always_inline)) {
    best.offer(load_piece<kType>(from, type, piece), piece);
  });
  int ids[kMostTopK];
  best.sort(ids);
  for (int j = 0; j < args.k; ++j) store_top_k(args, row, j, j < best.count ? ids[j] : -1);
}

// A unit takes rows that follow each other.
template <TopKConfig kConfig>
void top_k_cpu(const TopKArgs& args, unsigned unit, unsigned units) {
  for_share(args.rows, unit, units, [&](long long row) __attribute__((always_inline)) {
    if (args.k <= kFewBest) {
      top_k_row<kConfig.x, RowFewBest>(args, row);
    } else {
      top_k_row<kConfig.x, RowBest<kMostTopK>>(args, row);
    }
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
