// SPDX-License-Identifier: MIT
// Loops that do nothing but multiply what lies in the first level of cache: the best that one core does with each
// instruction.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tilewright {

struct PeakProbe {
  std::string_view mma;  // as in arch_specs.json
  int64_t ops_per_round;
  void (*run)(int64_t rounds);  // only on a CPU that has the instruction
};

std::span<const PeakProbe> peak_probes();

}  // namespace tilewright
