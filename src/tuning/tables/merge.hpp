// SPDX-License-Identifier: MIT
// Merging tuned tables that were measured apart: one rule decides which of two rows of a key stays.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dispatch/choice/tuned_table.hpp"

namespace tilewright {

struct NamedTable {
  std::string name;  // the file
  std::vector<TunedRow> rows;
};

// Two rows of one key that name different recipes.
struct MergeConflict {
  TunedRow kept, dropped;
  std::string kept_from, dropped_from;
  std::string rule;  // why: "newer library" ...
};

struct MergeResult {
  std::vector<TunedRow> rows;  // in key order
  std::vector<MergeConflict> conflicts;
  size_t equal = 0;  // rows dropped that name the same recipe
};

// Of two rows of one key (op, target, part, units, core, epilogue, sizes), the first of these that tells them apart
// decides: the newer library; the newer version of the same compiler; if their environment is one (library, kernel
// sources, compiler), the lower time; the newer date; the lower time. The result does not depend on the order of tables.
MergeResult merge_tables(std::span<const NamedTable> tables);

}  // namespace tilewright
