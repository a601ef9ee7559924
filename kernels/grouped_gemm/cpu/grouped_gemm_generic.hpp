// SPDX-License-Identifier: MIT
// grouped_gemm_generic: the kernel that is typed at run time; every valid problem runs. gemm_generic's blocks, of one group
// after another: units share all blocks of all groups evenly, which each finds from the groups' numbers alone.
#pragma once

#include "gemm/cpu/gemm_generic.hpp"
#include "grouped_gemm/cpu/grouped_status_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// The rows of a block where an index names those of A or D. Rows that are left out are neither read nor written.
struct IndexedRows {
  const GroupArgs& groups;
  int64 first;
  int count;

  struct Place {
    int64 a, d;
  };
  Place place(int r) const {
    bool clamped = false;
    const int64 a = indexed_row(groups.gather, groups.stride_gather, first + r, groups.a_rows, clamped);
    const int64 d = indexed_row(groups.scatter, groups.stride_scatter, first + r, groups.d_rows, clamped);
    return {d < 0 ? -1 : a, a < 0 ? -1 : d};
  }
  // The loaders begin with the block's first row: every row passes through it, the first one last.
  void load(const GemmScaledArgs& scaled, int64 batch, int64 k0, int k, GenericBlock& block) const {
    for (int r = count; r-- > 0;) {
      const int64 row = place(r).a;
      if (row < 0) {
        __builtin_memset(block.a[r], 0, sizeof(block.a[r]));
        continue;
      }
      generic_load_a(scaled.gemm, batch, row, 1, k0, k, block);
      generic_scale_a(scaled.scale.a, batch, row, 1, k0, k, block);
      if (r > 0) __builtin_memcpy(block.a[r], block.a[0], sizeof(block.a[0]));
    }
  }
  template <class Store>
  void store(GenericBlock& block, Store&& store) const {
    for (int r = 0; r < count; ++r) {
      const Place p = place(r);
      if (p.d < 0) continue;
      if (groups.row_scale.data != nullptr) {
        const float scale = static_cast<const float*>(groups.row_scale.data)[p.a * groups.row_scale.stride_m];
        for (float& sum : block.acc[r]) sum *= scale;
      }
      store(r, p.d, 1);
    }
  }
};

inline void grouped_gemm_generic(const GroupedGemmArgs& args, unsigned unit, unsigned units) {
  const GroupArgs& groups = args.groups;
  const GemmArgs& gemm = args.scaled.gemm;
  const bool ragged = groups.mode == GroupMode::kRaggedK;
  const int64 out_n = gemm.epilogue.gate == GateMode::kNone ? gemm.n : gemm.n / 2;
  const int64 n_blocks = blocking::ceil_div(out_n, kGenericOut);
  const auto blocks_of = [&](const GroupRange& range) {
    return blocking::ceil_div(ragged ? gemm.m : range.count, kGenericRows) * n_blocks;
  };
  int64 blocks = 0;
  GroupWalk all = group_walk(args);
  for (int64 g = 0; g < gemm.batch; ++g) blocks += blocks_of(all.next(groups, group_numbers(groups, g)));
  if (unit == 0) report_groups(args, all.clamped);

  const int64 begin = blocking::share_begin(blocks, units, unit),
              end = blocking::share_begin(blocks, units, unit + 1ll);
  GemmScaledArgs scaled = args.scaled;
  GenericBlock block;
  GroupWalk walk = group_walk(args);
  int64 first = 0;  // block of the group
  for (int64 g = 0; g < gemm.batch && first < end; ++g) {
    const GroupRange range = walk.next(groups, group_numbers(groups, g));
    const int64 here = blocks_of(range);
    if (ragged) {
      scaled.gemm.k = range.count;
      scaled.gemm.a = first_value(gemm.a, gemm.a_dtype, range.begin * gemm.stride_a_k);
      scaled.gemm.b = first_value(gemm.b, gemm.b_dtype, range.begin * gemm.stride_b_k);
    }
    const int64 rows_begin = ragged ? 0 : range.begin, rows = ragged ? gemm.m : range.count;
    for (int64 i = blocking::larger(begin - first, 0); i < blocking::smaller(end - first, here); ++i) {
      const int64 n0 = i % n_blocks * kGenericOut, m0 = i / n_blocks * kGenericRows;
      const int count = static_cast<int>(blocking::smaller(kGenericRows, rows - m0));
      const int out = static_cast<int>(blocking::smaller(kGenericOut, out_n - n0));
      if (groups.gather != nullptr || groups.scatter != nullptr) {
        generic_block(scaled, g, IndexedRows{groups, rows_begin + m0, count}, n0, out, block);
      } else {
        generic_block(scaled, g, ConsecutiveRows{rows_begin + m0, count}, n0, out, block);
      }
    }
    first += here;
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
