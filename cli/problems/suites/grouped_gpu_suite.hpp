// SPDX-License-Identifier: MIT
// The suite that GEMM of groups on a GPU is held to: experts of models, as many rows of each as a router that picks at random
// gives them.
#pragma once

#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

Suite grouped_gpu_suite();

}  // namespace tilewright::cli
