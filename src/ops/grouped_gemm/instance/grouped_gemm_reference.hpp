// SPDX-License-Identifier: MIT
// The float64 yardstick of grouped_gemm: gemm's, group by group.
#pragma once

#include "ops/gemm/instance/gemm_reference.hpp"
#include "ops/grouped_gemm/instance/group_data.hpp"

namespace tilewright {

// D of one group at rows x columns. Rows are the call's (contiguous), the group's (masked) or D's (ragged_k); one that is left
// out gives elements of value NaN that nobody may compare.
void grouped_gemm_reference_block(const GroupedGemmProblem& problem, const GroupData& data, const GroupRange& range,
                                  const GroupedGemmBindings& bindings, ArchVendor vendor, int64_t group,
                                  std::span<const int64_t> rows, std::span<const int64_t> columns,
                                  std::vector<ReferenceElement>& out);

// Where element [row, column] of a group lies in D, in elements; -1: the row is left out.
int64_t grouped_gemm_output_index(const GroupedGemmProblem& problem, const GroupData& data, int64_t group, int64_t row,
                                  int64_t column);
// The rows of a group that have a value.
GroupRange output_rows(const GroupedGemmProblem& problem, const GroupRange& range);

}  // namespace tilewright
