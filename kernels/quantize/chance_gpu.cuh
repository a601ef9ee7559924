// SPDX-License-Identifier: MIT
// Quotients rounded by chance (tile/common/chance.hpp). One source for NVIDIA and AMD.
#pragma once

#include "tile/common/chance.hpp"
#include "tile/gpu/row_store.cuh"

namespace tilewright {

// A thread's piece of a row, whose bits are one draw.
template <RowGpuConfig kConfig>
struct RoundByChance {
  static_assert(kChancePiece == kRowPiece);
  const RowArgs& given;

  __device__ __forceinline__ void operator()(DType out, long long row, long long n, Piece& p) const {
    if (!rounds_by_chance(kConfig, given)) return;
    const RowArgs& args = anew(given);
    const PhiloxWords bits = chances_of(args.quantising.random_state, args.quantising.state_words,
                                        row * chance_pieces(args.n) + n / kChancePiece);
    const auto round = [&](const ChanceGrid& grid) {
      for_elements([&](int i) { p.v[i] = round_by_chance(p.v[i], grid, chance_of(bits, i)); });
    };
    if constexpr (kConfig.out == DType::kNone) return round(chance_grid(out));
    constexpr ChanceGrid kGrid = chance_grid(kConfig.out == DType::kNone ? DType::kI8 : kConfig.out);
    round(kGrid);
  }
};

}  // namespace tilewright
