// SPDX-License-Identifier: MIT
// How fast a compute unit can run a loop at best: the cycles that each of its pipes needs for one iteration of all waves it
// holds. Latency, bank conflicts and the memories beyond the vector cache are not in it.
#pragma once

#include <string>
#include <vector>

#include "jit/amdgcn/inspection/compute_unit.hpp"
#include "jit/amdgcn/inspection/instruction_mix.hpp"

namespace tilewright {

struct PipeLoad {
  const char* name;
  double cycles = 0;
};

struct ThroughputBound {
  // matrix, vector, lds, vector_memory, scalar, branch, and issue: what one wave alone needs for its instructions.
  std::vector<PipeLoad> pipes;
  const char* limit = "";     // the pipe with the most cycles
  double cycles = 0;          // its cycles
  double matrix_busy = 0;     // share of them in which the matrix pipe works
  bool matrix_limit = false;  // the limit is the pipe that runs matrix instructions: of RDNA that is the vector ALU
  const PipeLoad* find(std::string_view name) const;
};

// One iteration of a loop with this mix, of `workgroups` workgroups of `waves` waves each. kUnsupported names matrix
// instructions whose cycles are not known.
Result<ThroughputBound> throughput_bound(const InstructionMix& mix, const AmdUnit& unit, int waves, int workgroups);

}  // namespace tilewright
