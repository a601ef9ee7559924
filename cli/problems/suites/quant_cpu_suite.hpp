// SPDX-License-Identifier: MIT
// The table of what GEMM with quantised weights is held to on CPUs: one and sixteen rows of 16-bit floats.
#pragma once

#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

Suite quant_cpu_suite();

}  // namespace tilewright::cli
