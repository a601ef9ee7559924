// SPDX-License-Identifier: MIT
// grouped_dequant_cpu: gemm_dequant_cpu, group after group, as grouped_gemm_cpu is gemm_cpu. Operands, scales and zero points are found by
// the group's number and by rows of the whole A, so that scales of 128 rows need not begin with a group.
#pragma once

#include "gemm/cpu/gemm_dequant_cpu.hpp"
#include "grouped_gemm/cpu/grouped_gemm_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <GemmDequantCpuConfig kConfig>
void grouped_dequant_cpu(const GroupedGemmArgs& args, unsigned unit, unsigned units) {
  for_each_group(args, unit, [&](GemmArgs& group, int64 g, int64 row, char* workspace) {
    const GemmCpuSizes sizes = gemm_dequant_cpu_sizes(kConfig, {group, args.scaled.scale, args.scaled.zero_b});
    const int64 own = gemm_cpu_blocking(kConfig.product(), sizes, units).unit_bytes;
    group.workspace = workspace - unit * own;  // the product adds it again
    using Unit = GemmCpuUnit<kConfig.product(), DequantOperands<kConfig>>;
    Unit(group, DequantOperands<kConfig>(args.scaled, g, row), sizes, unit, units).run();
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
