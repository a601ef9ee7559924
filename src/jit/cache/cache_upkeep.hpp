// SPDX-License-Identifier: MIT
// Looking after a cache folder: what is in it, whether it is sound, and what may go.
#pragma once

#include <string_view>
#include <vector>

#include "jit/cache/cache_root.hpp"
#include "jit/code_cache.hpp"

namespace tilewright {

// Every entry, by name; each one is read and checked.
std::vector<CacheEntryInfo> list_entries(const CacheRoot& root);

// `compiler`: identity of the compiler in use, "" = none; entries of another one are stale.
Result<PruneReport> prune_entries(const CacheRoot& root, const PruneOptions& options, std::string_view compiler);

}  // namespace tilewright
