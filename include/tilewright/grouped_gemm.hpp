// SPDX-License-Identifier: MIT
// grouped_gemm: many GEMMs at once, of groups whose sizes only the device knows. Types, scales, epilogue and options are
// gemm's (tilewright/gemm.hpp); docs/grouped-gemm.md has pictures of the modes.
//
// contiguous  A [T, K], rows of groups one after another; B [G, K, N]; D [T, N]. C, scale_a and steps go by row, [T, ..].
// masked      A [G, M, K], B [G, K, N], D [G, M, N]; of group g the first sizes[g] rows count, the others of D stay as they are.
// ragged_k    A [M, T], B [T, N], D [G, M, N]: group g sums over its own part of T; an empty one gives what K = 0 gives.
// bias and scale_b may have a row for each group: [G, N] (scale_b also [G, 1]); a weight stored as [G, N, K] is passed transposed.
//
// Sizes: G, N, K are exact, T and M bucketed, sizes and offsets of groups are device-resident: they are never read back.
// Rows of D that are in no group are neither read nor written. Numbers that reach past the rows there are, or are negative, are
// clamped: nothing out of bounds is read or written, and the status word says so.
// Aliasing: as gemm's; D may not overlap sizes, offsets, indices or status either.
#pragma once

#include <string>

#include "grouped_gemm/grouped_gemm_args.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {

struct GroupedGemmCall {
  GemmCall gemm;  // what one GEMM has, with the shapes above; no packed B in ragged_k
  GroupMode mode = GroupMode::kContiguous;
  // i32, in the device's memory. contiguous and ragged_k: sizes [G], or offsets [G + 1] (the first is where group 0 begins), or
  // offsets [G] (where each group ends, as in torch._grouped_mm), or both: offsets say where groups begin, what lies between is
  // padding. masked: sizes.
  TensorView sizes, offsets;
  int64_t alignment = 1;  // sizes alone: groups begin at multiples of this
  // contiguous, i32 [T]: the rows of A that are multiplied, the rows of D that are written. Below 0: the row is left out.
  TensorView gather, scatter;
  TensorView status;          // i32 [1] or a scalar: 1 is written where anything was clamped, else it is left alone
  int64_t expected_rows = 0;  // about how many rows all groups have: helps to choose a kernel. 0 = as many as fit
};

// As gemm's functions of these names.
TILEWRIGHT_API Status grouped_gemm(Context& context, const GroupedGemmCall& call, const Exec& exec = {});
TILEWRIGHT_API Status grouped_gemm_prepare(Context& context, const GroupedGemmCall& call, const Exec& exec = {});
TILEWRIGHT_API Result<QueryResult> grouped_gemm_query(Context& context, const GroupedGemmCall& call,
                                                      const Exec& exec = {});
TILEWRIGHT_API Result<std::string> grouped_gemm_explain(Context& context, const GroupedGemmCall& call,
                                                        const Exec& exec = {});
// The same function in float64, slowly: the yardstick of every kernel. CPU tensors only.
TILEWRIGHT_API Status grouped_gemm_reference(const GroupedGemmCall& call);

}  // namespace tilewright
