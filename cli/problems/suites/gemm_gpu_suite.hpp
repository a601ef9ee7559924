// SPDX-License-Identifier: MIT
// The suite that dense GEMM on a GPU is held to: weights of linear layers by rows of A, dtype and regime.
#pragma once

#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

Suite gemm_gpu_suite();

}  // namespace tilewright::cli
