// SPDX-License-Identifier: MIT
// Every kernel on ragged sizes, strides and unit counts, against the float64 reference.
#include <gtest/gtest.h>

#include <set>

#include "op/kernel_runner.hpp"

namespace tilewright {
namespace {

// Runs every kernel that this CPU has on `text`, plain and packed; a failure names kernel and problem.
void check_all(const std::string& text, const RunOptions& options = {}) {
  for (const char* dtype : {":a=f32", ":a=f16", ":a=bf16", ":a=i8"}) {
    for (const char* packed : {"", ":packed=1"}) {
      const std::string full = text + dtype + packed;
      KernelRun run(full, options);
      for (const KernelTarget* target : all_kernel_targets()) {
        if (!runs_here(*target)) continue;
        for (int i = 0; i < target->count; ++i) {
          const KernelUnderTest& kernel = target->kernels[i];
          if (!serves(kernel, run.problem())) continue;
          EXPECT_EQ(run.run(kernel), "") << kernel_name(*target, kernel) << "\n  " << full;
        }
      }
    }
  }
}

TEST(GemmKernelShapes, TailsOfEverySizeAreComputed) {
  for (int m : {1, 2, 5, 16, 17, 33, 50}) {
    for (int n : {1, 15, 16, 33, 100}) {
      for (int k : {1, 3, 31, 64, 67, 130}) {
        check_all("m=" + std::to_string(m) + ":n=" + std::to_string(n) + ":k=" + std::to_string(k));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
