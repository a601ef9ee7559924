// SPDX-License-Identifier: MIT
// Weights and e8m0 scales in the orders that AITER's kernels read, to and from plain ones.
#pragma once

#include "tilewright/stored_weights.hpp"

namespace tilewright {

// stored.weight [.., N, K] from plain.b [.., K, N], or back: pieces of 16 bytes along K, of 16 rows beside each other,
// [N / 16, K / 32, pieces of 32 values, 16, 16 bytes].
Status copy_aiter_weight(Context& context, const StoredWeights& stored, const PlainWeights& plain, bool import);
// stored.weight [ceil(N / 32) 32 ..., ceil(G / 8) 8] of bytes from plain.b [G, N], or back: [N / 32, G / 8, 4, 16, 2, 2], where
// the last two count 4 groups and 16 columns.
Status copy_aiter_scales(const StoredWeights& stored, const PlainWeights& plain, bool import);

}  // namespace tilewright
