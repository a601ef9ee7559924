// SPDX-License-Identifier: MIT
// Runs a kernel under test on a problem given as text, and judges it by the operator's own verification: guarded
// buffers, poisoned outputs, the float64 reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dispatch/problem_instance.hpp"
#include "op/instances/kernel_under_test.hpp"
#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// Every table, and whether this CPU runs it.
std::vector<const KernelTarget*> all_kernel_targets();
bool runs_here(const KernelTarget& target);

// "v4/gemm_cpu dtype=f32:mma=..."
std::string kernel_name(const KernelTarget& target, const KernelUnderTest& kernel);
DType kernel_dtype(const KernelUnderTest& kernel);
// Whether the kernel serves the problem (dtype, packed or plain with k contiguous).
bool serves(const KernelUnderTest& kernel, const GemmProblem& problem);

struct RunOptions {
  uint64_t seed = 1;
  InputData data = InputData::kNormal;
  int units = 1;
  bool reversed = false;  // units run from the last to the first
  GemmKnobs knobs;
};

// A problem with its data; any number of kernels can run on it.
class KernelRun {
 public:
  KernelRun(const std::string& text, const RunOptions& options = {});
  // Runs and returns "" or what is wrong.
  std::string run(const KernelUnderTest& kernel);
  // Runs only; "" or what was written outside of the workspace.
  std::string execute(const KernelUnderTest& kernel);
  // D's bytes after the last run.
  std::vector<unsigned char> output() const;
  const GemmProblem& problem() const { return problem_; }
  const GemmArgs& args() const { return args_; }
  GemmArgs& mutable_args() { return args_; }

 private:
  RunOptions options_;
  GemmProblem problem_;
  std::unique_ptr<ProblemInstance> instance_;
  GemmArgs args_{};
  GemmScaledArgs scaled_{};
};

// Runs every kernel of this CPU that serves `text` on each dtype, plain and packed; a failure names kernel and problem.
// `text` may fix a=, packed= or strides of B itself: then only that is run.
void check_kernels(const std::string& text, const RunOptions& options = {});

// body(target, kernel) for every kernel of this CPU, but for gemm_dequant_cpu's; and for those.
template <class Body>
void for_each_kernel(Body&& body, bool dequant = false) {
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (int i = 0; i < target->count; ++i) {
      if ((target->kernels[i].kind == KernelKind::kDequant) == dequant) body(*target, target->kernels[i]);
    }
  }
}
template <class Body>
void for_each_dequant_kernel(Body&& body) {
  for_each_kernel(body, true);
}

}  // namespace tilewright
