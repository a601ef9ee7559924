// SPDX-License-Identifier: MIT
// The static quality of one kernel for AMD GPUs: what its code object, its main loop and the limits of a compute unit say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/hip/object/code_object.hpp"
#include "jit/amdgcn/amdgcn_compiler.hpp"
#include "jit/amdgcn/inspection/throughput_bound.hpp"

namespace tilewright {

struct AmdInspectOptions {
  std::string_view source;  // the instance, for what it declares
  int64_t launch_lds = 0;   // bytes that a launch adds
  bool lint = false;        // with llvm-mca
};

struct AmdInspection {
  std::string target;
  AmdKernel kernel;
  AmdOccupancy occupancy;
  int declared_waves = 0;  // of a SIMD, by the launch bounds; 0 = none
  // Why there is no more than that; else the rest is filled.
  Status code_problem;
  int instructions = 0;             // of the kernel
  std::optional<uint64_t> loop_at;  // offset of the main loop; without one the mix is that of the whole kernel
  InstructionMix mix;
  Status bound_problem;
  ThroughputBound bound;
  // llvm-mca's block reciprocal throughput of the loop, in issue slots of a wave. Its absence is no error.
  Status lint_problem;
  double lint_throughput = 0;
};

Result<AmdInspection> inspect_amd_kernel(const AmdgcnCompiler& compiler, std::span<const std::byte> object,
                                         const std::string& entry, const AmdInspectOptions& options = {});

}  // namespace tilewright
