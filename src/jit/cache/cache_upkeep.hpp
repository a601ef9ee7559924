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

// Identity of the compiler in use for what the entry holds, "" = none; entries of another one are stale.
using CompilerOfEntry = std::function<std::string(const CacheEntryInfo& entry)>;
Result<PruneReport> prune_entries(const CacheRoot& root, const PruneOptions& options, const CompilerOfEntry& compiler);

}  // namespace tilewright
