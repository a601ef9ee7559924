// SPDX-License-Identifier: MIT
// What grouped CPU kernels share: the status word, and where a group's values along K begin.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "grouped_gemm/grouped_gemm_args.hpp"
#include "tile/cpu/isa.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// One unit's work: looks at every index, and writes the status word where anything was clamped.
inline void report_groups(const GroupedGemmArgs& args, bool clamped) {
  const GroupArgs& a = args.groups;
  if (a.status == nullptr) return;
  for (int64 row = 0; row < args.scaled.gemm.m && a.mode == GroupMode::kContiguous; ++row) {
    indexed_row(a.gather, a.stride_gather, row, a.a_rows, clamped);
    indexed_row(a.scatter, a.stride_scatter, row, a.d_rows, clamped);
  }
  if (clamped) *a.status = kGroupsClamped;
}

// Element `index` of whole bytes.
inline const void* first_value(const void* data, DType dtype, int64 index) {
  return static_cast<const char*>(data) + index * (dtype_bits(dtype) / 8);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
