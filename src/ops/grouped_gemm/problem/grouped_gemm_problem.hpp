// SPDX-License-Identifier: MIT
// GroupedGemmProblem: one call's description without addresses. A GemmProblem whose batch index is the group, and what
// groups add.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "grouped_gemm/grouped_gemm_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "tilewright/grouped_gemm.hpp"

namespace tilewright {

struct GroupedGemmProblem {
  // batch = G. contiguous: m = T, and what goes by row has a batch stride of 0. masked: m = rows of a group at most.
  // ragged_k: k = T, and A and B have a batch stride of 0.
  GemmProblem gemm;
  int64_t a_rows = 0, d_rows = 0;  // of A and D; m unless an index names them
  int64_t alignment = 1;           // GroupExtents::kSizes
  int64_t expected_rows = 0;       // 0 = not known
  int64_t stride_sizes = 0, stride_offsets = 0, stride_gather = 0, stride_scatter = 0;
  GroupMode mode = GroupMode::kContiguous;
  GroupExtents extents = GroupExtents::kSizes;
  uint8_t has_gather = 0, has_scatter = 0, has_status = 0;
  uint8_t reserved[3] = {};

  bool has_sizes() const { return extents == GroupExtents::kSizes || extents == GroupExtents::kBoth; }
  bool has_offsets() const { return extents != GroupExtents::kSizes; }
  bool indexed() const { return has_gather != 0 || has_scatter != 0; }
  // Of all groups, as far as anybody knows.
  int64_t likely_rows() const;
  bool empty() const { return gemm.m == 0 || gemm.n == 0 || gemm.batch == 0; }
};

// Behind gemm's own slots.
enum GroupedGemmPointerSlot : uint16_t {
  kSlotSizes = kGemmPointerSlots,
  kSlotOffsets,
  kSlotGather,
  kSlotScatter,
  kSlotStatus,
};
inline constexpr int kGroupedGemmPointerSlots = kSlotStatus + 1;

struct GroupedGemmBindings {
  std::array<const void*, kGroupedGemmPointerSlots> pointers{};
  std::array<float, kGemmScalarSlots> scalars{};
  // Those of the GEMM within.
  GemmBindings gemm() const;
};

// As the functions of gemm.
Status read_grouped_gemm_call(const GroupedGemmCall& call, bool check_addresses, GroupedGemmProblem& problem,
                              GroupedGemmBindings& bindings);
Status validate_grouped_gemm_problem(const GroupedGemmProblem& problem);
Status check_grouped_gemm_addresses(const GroupedGemmProblem& problem, const GroupedGemmBindings& bindings);
// All of it.
Status make_grouped_gemm_problem(const GroupedGemmCall& call, bool check_addresses, GroupedGemmProblem& problem,
                                 GroupedGemmBindings& bindings);

// "mode=masked:groups=8:" and the text of the GEMM within; docs/grouped-gemm.md.
std::string print_grouped_gemm_problem(const GroupedGemmProblem& problem);
Result<GroupedGemmProblem> parse_grouped_gemm_problem(std::string_view text);
// The same signature at other sizes, with contiguous strides.
GroupedGemmProblem resize_grouped_gemm_problem(const GroupedGemmProblem& from, int64_t groups, int64_t m, int64_t n,
                                               int64_t k);

// How many groups have rows, if each row picked one at random.
double likely_groups(const GroupedGemmProblem& problem);
ProblemSignature grouped_gemm_signature(const GroupedGemmProblem& problem);
double grouped_gemm_operations(const GroupedGemmProblem& problem);
double grouped_gemm_bytes_moved(const GroupedGemmProblem& problem);

// What the rows of a contiguous problem share between groups has a batch stride of 0; of ragged_k A and B.
void share_between_groups(GroupedGemmProblem& problem);
// The GEMM within as a batched one, with the batch strides that its text takes for granted.
GemmProblem as_batched(const GroupedGemmProblem& problem);

}  // namespace tilewright
