// SPDX-License-Identifier: MIT
#include "jit/amdgcn/inspection/throughput_bound.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright {

const PipeLoad* ThroughputBound::find(std::string_view name) const {
  const auto found = std::find_if(pipes.begin(), pipes.end(), [&](const PipeLoad& pipe) { return pipe.name == name; });
  return found == pipes.end() ? nullptr : &*found;
}

Result<ThroughputBound> throughput_bound(const InstructionMix& mix, const AmdUnit& unit, int waves, int workgroups) {
  using Class = InstructionClass;
  int64_t matrix_cycles = 0;
  for (const MatrixUse& use : mix.matrix) {
    if (use.cycles == 0) {
      return Status(StatusCode::kUnsupported, fmt::format("the cycles of {} are not known", use.mnemonic));
    }
    matrix_cycles += int64_t{use.count} * use.cycles;
  }
  const auto count = [&](std::initializer_list<Class> kinds) {
    int sum = 0;
    for (const Class kind : kinds) sum += mix.count(kind);
    return sum;
  };
  const auto word_bytes = [&](std::initializer_list<Class> kinds) {
    int64_t sum = 0;
    for (const Class kind : kinds) sum += mix.of(kind).word_bytes;
    return static_cast<double>(sum);
  };
  const int all = waves * workgroups;
  // Waves go to the SIMDs in turn; the fullest one counts.
  const int of_simd = (all + unit.simds - 1) / unit.simds;
  const double issue = unit.issue_cycles;

  const double matrix = static_cast<double>(of_simd * matrix_cycles);
  int vector_issues =
      count({Class::kVectorInteger, Class::kVectorConversion, Class::kVectorOther, Class::kAccumulatorMove});
  vector_issues += 3 * mix.quarter_rate;
  if (unit.slow_conversions) vector_issues += 3 * mix.count(Class::kVectorConversion);
  // A matrix instruction takes one turn of the vector issue, or the whole ALU.
  const double matrix_in_vector = unit.matrix_in_vector ? matrix : of_simd * issue * mix.count(Class::kMatrix);
  const double vector = of_simd * issue * vector_issues + matrix_in_vector;
  // What goes directly to LDS takes both ways.
  const double lds = all * word_bytes({Class::kLdsRead, Class::kLdsWrite, Class::kLdsOther, Class::kDirectToLds}) /
                     (kLdsBytesPerCycle * unit.compute_units);
  const double memory = all *
                        word_bytes({Class::kGlobalLoad, Class::kGlobalStore, Class::kDirectToLds, Class::kScratch}) /
                        (kVectorMemoryBytesPerCycle * unit.compute_units);
  const double scalar = of_simd * issue * count({Class::kScalar, Class::kScalarLoad});
  const double branch = of_simd * issue * count({Class::kBranch});
  // A wave issues one instruction in its turn; waits and hints take none, s_nop takes as many as it says.
  const int issued = mix.instructions - count({Class::kWait, Class::kHint}) + mix.nop_states;

  ThroughputBound bound;
  bound.pipes = {{"matrix", matrix},        {"vector", vector}, {"lds", lds},
                 {"vector_memory", memory}, {"scalar", scalar}, {"branch", branch},
                 {"issue", issue * issued}};
  const auto most = std::max_element(bound.pipes.begin(), bound.pipes.end(),
                                     [](const PipeLoad& x, const PipeLoad& y) { return x.cycles < y.cycles; });
  bound.limit = most->name;
  bound.cycles = most->cycles;
  bound.matrix_busy = bound.cycles > 0 ? matrix / bound.cycles : 0;
  const std::string_view limit = bound.limit;
  bound.matrix_limit = matrix > 0 && (limit == "matrix" || (unit.matrix_in_vector && limit == "vector"));
  return bound;
}

}  // namespace tilewright
