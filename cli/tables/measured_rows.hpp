// SPDX-License-Identifier: MIT
// Measured rows of any file that the program writes, in one form, and two such files row by row.
#pragma once

#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright::cli {

struct MeasuredRow {
  std::string key;    // what was measured: problem, threads, part
  std::string label;  // the same for people
  double us = 0, spread = 0;
  std::string recipe;
  double limit_fraction = 0;            // from bursts that took turns with the row's; 0 = none
  std::string peer;                     // measured in pairs with the row
  double ratio = 0, low = 0, high = 0;  // peer time / own time with its 95% interval
};

// A tuned table, a bench's CSV, or the results of `tilewright tune`.
Result<std::vector<MeasuredRow>> read_measured(const std::string& path);

struct RowComparison {
  std::string key, label;
  double a_us = 0, b_us = 0;  // 0 = not in this file
  double speedup = 0;         // a_us / b_us: above 1, B is faster
  // The same with the machine's own change taken out, by what both rows were measured in pairs with; 0 = nothing.
  double paired = 0, low = 0, high = 0;
  std::string paired_by;  // "limit", "PyTorch 2.13.0"
  bool same_recipe = true;
  enum class Verdict { kSame, kFaster, kSlower, kOnlyA, kOnlyB } verdict = Verdict::kSame;
  double decisive() const { return paired > 0 ? paired : speedup; }
};
const char* verdict_name(RowComparison::Verdict verdict);

// A row is faster or slower when the decisive ratio lies beyond the threshold (0.05 = 5 %), and beyond both rows' spread
// or the interval of the pairs. Rows of A first, in its order.
std::vector<RowComparison> compare_rows(const std::vector<MeasuredRow>& a, const std::vector<MeasuredRow>& b,
                                        double threshold);

}  // namespace tilewright::cli
