// SPDX-License-Identifier: MIT
// Looking after a cache folder: what is in it, whether it is sound, and what may go.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cache/cache_root.hpp"
#include "jit/code_cache.hpp"

namespace tilewright {

// Every entry, by name; each one is read and checked.
std::vector<CacheEntryInfo> list_entries(const CacheRoot& root);

// Identity of the compiler in use for a target, "" = none; entries of another one are stale.
using CompilerOfTarget = std::function<std::string(std::string_view target)>;
Result<PruneReport> prune_entries(const CacheRoot& root, const PruneOptions& options, const CompilerOfTarget& compiler);

}  // namespace tilewright
