// SPDX-License-Identifier: MIT
// The numbers of groups on the host: drawn for an instance, and read as a reference reads them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {

// Sizes, offsets and indices as a device would hold them; empty where the problem has none.
struct GroupData {
  std::vector<int32_t> sizes, offsets, gather, scatter;
};

// Seed 1, that of benches, spreads the likely rows at random. Others put all in one group, spread them evenly, or leave rows
// and groups out and reach past what there is.
GroupData draw_groups(const GroupedGemmProblem& problem, uint64_t seed);

// Where the groups lie, and which rows of A and of D belong together.
struct GroupPlaces {
  std::vector<GroupRange> ranges;
  bool clamped = false;  // what the status word says

  // Row `row` of the call: rows of A and D; -1 = left out.
  struct Row {
    int64_t a, d;
  };
};
GroupPlaces place_groups(const GroupedGemmProblem& problem, const GroupData& data);
GroupPlaces::Row place_row(const GroupedGemmProblem& problem, const GroupData& data, int64_t row);

}  // namespace tilewright
