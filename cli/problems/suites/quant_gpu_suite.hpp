// SPDX-License-Identifier: MIT
// The suite that products of quantised operands on a GPU are held to, beyond those of gemm_gpu_suite: scales of groups.
#pragma once

#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

Suite quant_gpu_suite();

}  // namespace tilewright::cli
