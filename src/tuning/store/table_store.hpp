// SPDX-License-Identifier: MIT
// Writing a user's tuned table: rows are merged under an advisory lock and published by rename, so that readers never see
// half a table and writers of several processes lose no row.
#pragma once

#include <string>
#include <vector>

#include "dispatch/choice/tuned_table.hpp"

namespace tilewright {

// Replaces rows of the same key (op, target, part, units, core, epilogue, sizes), appends the others, leaves every other
// line as it is. A table with another version's columns is kept beside the new one as `<path>.old`.
Status store_tuned_rows(const std::string& path, const std::vector<TunedRow>& rows, double lock_wait_seconds = 20);

}  // namespace tilewright
