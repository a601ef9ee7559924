// SPDX-License-Identifier: MIT
// What matrix instructions of AMD GPUs have in common. A lane holds `kChunks` chunks of 16 bytes along K of row
// (lane % kRows) of each operand; the groups of kRows lanes hold chunks that follow each other. Which k a chunk's elements
// are does not matter as long as both operands agree, so one step takes kStepBytes of K of either.
//
//   MatrixStep<kType, kRows>::multiply(sums, x, y);   // sums[i] += x row row(lane, i) . y row (lane % kRows)
#pragma once

#include "tile/amd/memory.hpp"
#include "tile/common/dtype.hpp"

namespace tilewright {

// Elements of a chunk as an instruction's operand.
template <class Piece>
__device__ __forceinline__ Piece piece_of(const Words4& chunk, int i) {
  Piece pieces[16 / sizeof(Piece)];
  __builtin_memcpy(pieces, &chunk, 16);
  return pieces[i];
}

// Sums of int8 are int, all others float.
template <DType kType>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<DType::kI8> {
  using Type = int;
};

using Short4 = VectorOf<short, 4>;
using Half4 = VectorOf<_Float16, 4>;
using Half8 = VectorOf<_Float16, 8>;
using Half16 = VectorOf<_Float16, 16>;
using Int4 = VectorOf<int, 4>;
using Int8 = VectorOf<int, 8>;
#if defined(TILEWRIGHT_EMULATED_TARGET)
using BrainElement = short;  // g++ 12 has no __bf16
#else
using BrainElement = __bf16;
#endif
using Brain8 = VectorOf<BrainElement, 8>;
using Short16 = VectorOf<short, 16>;

}  // namespace tilewright
