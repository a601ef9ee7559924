// SPDX-License-Identifier: MIT
#include "jit/cache/cache_upkeep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "jit/cache/cache_entry.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

int64_t folder_bytes(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) bytes += static_cast<int64_t>(it->file_size(ignored));
  }
  return bytes;
}

// Seconds since the folder was written. Times in the future (the clock was set back, or another machine's is ahead) are
// those of new entries.
double age_of(const std::string& folder) {
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  if (error) return 0;
  return std::max(0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

CacheEntryInfo describe(const std::string& folder) {
  CacheEntryInfo info;
  info.path = folder;
  info.bytes = folder_bytes(folder);
  info.age_seconds = age_of(folder);
  Result<CacheEntryData> data = read_entry(folder);
  info.valid = data.ok();
  if (data.ok()) {
    info.name = data->name;
    info.digest = data->digest;
    info.target = data->target;
    info.compiler = data->compiler;
    info.library = data->library;
    info.kind = data->kind;
    info.created = data->created;
    return info;
  }
  info.problem = data.status().message();
  info.other_version = data.status().code() == StatusCode::kUnsupported;
  const std::string file = fs::path(folder).filename().string();
  const size_t dash = file.rfind('-');
  info.name = file.substr(0, dash);
  if (dash != std::string::npos) info.digest = file.substr(dash + 1);
  return info;
}

// Why the entry of a healthy cache will not be asked for again; "" = it may be.
std::string staleness(const CacheEntryInfo& entry, std::string_view compiler) {
  if (entry.other_version) return "of another entry format";
  if (!entry.valid) return "damaged";
  if (entry.library != library_version()) return fmt::format("of tilewright {}", entry.library);
  if (!compiler.empty() && entry.compiler != compiler) return "of another compiler";
  return {};
}

}  // namespace

std::vector<CacheEntryInfo> list_entries(const CacheRoot& root) {
  std::vector<CacheEntryInfo> entries;
  for (const std::string& folder : root.entry_folders()) entries.push_back(describe(folder));
  std::sort(entries.begin(), entries.end(), [](const CacheEntryInfo& a, const CacheEntryInfo& b) {
    return std::tie(a.name, a.digest) < std::tie(b.name, b.digest);
  });
  return entries;
}

Result<PruneReport> prune_entries(const CacheRoot& root, const PruneOptions& options, const CompilerOfEntry& compiler) {
  if (options.keep_bytes && *options.keep_bytes < 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("prune: keep_bytes = {}, allowed: 0 or more", *options.keep_bytes));
  }
  if (options.max_age_seconds && !(*options.max_age_seconds >= 0)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("prune: max_age_seconds = {}, allowed: 0 or more", *options.max_age_seconds));
  }
  PruneReport report;
  const auto drop = [&](const std::string& folder, int64_t bytes, std::string reason) {
    report.removed.push_back({folder, bytes, std::move(reason)});
    report.bytes += bytes;
  };

  // Newest first: what is over the size limit is at the end.
  std::vector<CacheEntryInfo> entries = list_entries(root);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const CacheEntryInfo& a, const CacheEntryInfo& b) { return a.age_seconds < b.age_seconds; });
  int64_t kept = 0;
  for (const CacheEntryInfo& entry : entries) {
    std::string reason;
    if (options.stale) reason = staleness(entry, entry.valid ? compiler(entry) : "");
    if (reason.empty() && options.max_age_seconds && entry.age_seconds > *options.max_age_seconds) reason = "too old";
    if (reason.empty() && options.keep_bytes && kept + entry.bytes > *options.keep_bytes)
      reason = "over the size limit";
    if (reason.empty()) {
      kept += entry.bytes;
    } else {
      drop(entry.path, entry.bytes, reason);
    }
  }
  for (const std::string& folder : root.leftovers()) drop(folder, folder_bytes(folder), "left by a build");
  if (options.stale) {
    for (const std::string& folder : root.other_abi_folders()) {
      drop(folder, folder_bytes(folder), "of another kernel ABI");
    }
  }
  if (options.dry_run) return report;
  for (const PruneReport::Item& item : report.removed) root.remove(item.path);
  return report;
}

}  // namespace tilewright
