// SPDX-License-Identifier: MIT
// top_k_cpu: what is better than the k best so far, which few vectors have, is put aside; these are sorted. Typed by its config, or at run
// time.
#pragma once

#include "tile/cpu/row_best.hpp"
#include "top_k/top_k_args.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A unit takes rows that follow each other.
template <TopKConfig kConfig>
void top_k_cpu(const TopKArgs& args, unsigned unit, unsigned units) {
  const DType type = kConfig.x == DType::kNone ? args.dtype : kConfig.x;
  for_share(args.rows, unit, units, [&](long long row) __attribute__((always_inline)) {
    const char* const from = static_cast<const char*>(args.x) + row * args.stride * dtype_bits(type) / 8;
    RowBest<kMostTopK> best(args.k);
    for_pieces(top_k_length(args, row), [&](auto piece) __attribute__((always_inline)) {
      best.offer(load_piece<kConfig.x>(from, type, piece), piece);
    });
    int ids[kMostTopK];
    best.sort(ids);
    for (int j = 0; j < args.k; ++j) store_top_k(args, row, j, j < best.count ? ids[j] : -1);
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
