// SPDX-License-Identifier: MIT
// Tuned rows in the columns of AITER's tuned CSV files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dispatch/choice/tuned_table.hpp"
#include "problems/captured/aiter_shapes.hpp"

namespace tilewright::cli {

struct AiterFiles {
  std::map<std::string, std::string> text;  // "bf16_tuned_gemm.csv" -> its lines
  std::map<std::string, int64_t> rows;      // of each file
  std::vector<SkippedShapes> skipped;       // rows for which AITER has no columns
};
// gfx is the target, cu_num the units, libtype "tilewright", kernelName the recipe; kernels have no number: -1.
AiterFiles export_aiter(const std::vector<const TunedRow*>& rows);

}  // namespace tilewright::cli
