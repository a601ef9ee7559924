// SPDX-License-Identifier: MIT
// grouped_gemm_cpu: gemm_cpu, group after group. Its units need no barrier between them, so each goes on to its share of the
// next group when it is done with this one. Contiguous and masked; rows that an index names are grouped_gemm_generic's.
#pragma once

#include "gemm/cpu/gemm_cpu.hpp"
#include "grouped_gemm/cpu/grouped_cpu_blocking.hpp"
#include "grouped_gemm/cpu/grouped_status_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline void move_operand(EpilogueOperand& o, int64 group, int64 row) {
  if (o.data == nullptr) return;
  o.data = first_value(o.data, o.dtype, group * o.stride_batch + row * o.stride_m);
}

// The call's arguments for `rows` rows of a group from `row` on. B stays where it is when it has no batch stride.
inline GemmArgs group_args(const GemmArgs& all, int64 group, int64 row, int64 rows) {
  GemmArgs args = all;
  args.m = rows, args.batch = 1;
  args.a = first_value(all.a, all.a_dtype, group * all.stride_a_batch + row * all.stride_a_m);
  const int64 b = group * all.stride_b_batch;
  args.b = all.b_packed ? static_cast<const char*>(all.b) + b : first_value(all.b, all.b_dtype, b);
  GemmEpilogueArgs& e = args.epilogue;
  move_operand(e.scale_a, group, row), move_operand(e.scale_b, group, row);
  move_operand(e.c, group, row), move_operand(e.bias, group, row);
  for (int i = 0; i < e.step_count; ++i) move_operand(e.steps[i].operand, group, row);
  const int64 d = group * e.stride_d_batch + row * e.stride_d_m;
  e.d = static_cast<char*>(e.d) + d * (dtype_bits(e.d_dtype) / 8);
  return args;
}

// multiply(args of rows of a group, group, first row, where the unit's workspace begins), group after group. Every unit has
// workspace for the largest of its shares: units may be at different groups. block_m is that size; gemm_cpu chooses its blocks
// itself.
template <class Multiply>
TILEWRIGHT_INLINE void for_each_group(const GroupedGemmArgs& args, unsigned unit, Multiply&& multiply) {
  GemmArgs all = args.scaled.gemm;
  const int64 unit_bytes = all.block_m;
  all.block_m = 0;
  char* const workspace = static_cast<char*>(all.workspace) + unit * unit_bytes;
  GroupWalk walk = group_walk(args);
  for (int64 g = 0; g < all.batch; ++g) {
    const GroupRange range = walk.next(args.groups, group_numbers(args.groups, g));
    for (int64 row = 0; row < range.count; row += kGroupedRows) {
      GemmArgs group = group_args(all, g, range.begin + row, blocking::smaller(kGroupedRows, range.count - row));
      multiply(group, g, range.begin + row, workspace);
    }
  }
  if (unit == 0) report_groups(args, walk.clamped);
}

template <GemmCpuConfig kConfig>
void grouped_gemm_cpu(const GroupedGemmArgs& args, unsigned unit, unsigned units) {
  for_each_group(args, unit, [&](GemmArgs& group, int64, int64, char* workspace) {
    const int64 own = gemm_cpu_blocking(kConfig, gemm_cpu_sizes(group), units).unit_bytes;
    group.workspace = workspace - unit * own;  // gemm_cpu adds it again
    gemm_cpu<kConfig>(group, unit, units);
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
