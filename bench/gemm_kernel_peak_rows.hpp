// SPDX-License-Identifier: MIT
// The kernels that gemm_kernel_peak measures: a table a target, from one source compiled with each target's flags.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

struct PeakRow {
  bool gemv;
  GemmCpuConfig gemm;
  GemvCpuConfig vector;
  void (*entry)(const void* args, unsigned unit, unsigned units);
};

struct PeakTable {
  const char* target;
  const PeakRow* rows;
  int count;
  void (*pack)(const void* pack_args, unsigned unit, unsigned units);
};

const PeakTable& peak_rows_v3();
const PeakTable& peak_rows_v4();
const PeakTable& peak_rows_dot();
const PeakTable& peak_rows_amx();

}  // namespace tilewright
