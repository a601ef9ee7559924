// SPDX-License-Identifier: MIT
// What operators that move bytes are held to.
#pragma once

#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

Suite memory_cpu_suite();
Suite memory_gpu_suite();

}  // namespace tilewright::cli
