// SPDX-License-Identifier: MIT
#include "jit/cache/pack_set.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/log.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// The file that holds this very function: the shared library, a Python module, or a program; "" when nobody says.
fs::path library_path() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&library_packs_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : path;
}

std::vector<std::string> packs_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kPackSuffix) found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void warn_of_pack(const Status& problem) {
  if (log_first_time(problem.message())) log(LogLevel::kWarn, "jit", "{}", problem.message());
}

}  // namespace

std::string library_packs_folder() {
  const fs::path library = library_path();
  if (library.empty()) return {};
  const fs::path folder = library.parent_path();
  std::error_code error;
  for (const fs::path& place : {folder.parent_path() / "share" / "tilewright" / "packs", folder / "packs"}) {
    if (place.parent_path().filename() == "tilewright" && fs::is_directory(place, error)) return place.string();
  }
  return {};
}

PackSet::PackSet(const std::vector<std::string>& named, bool beside_library, Counters& counters) : counters_(counters) {
  for (const std::string& path : named) add_path(path, geteuid());
  if (!beside_library) return;
  const std::string folder = library_packs_folder();
  struct stat info;
  // Whoever installed the library decides what runs in this process already.
  if (!folder.empty() && stat(library_path().c_str(), &info) == 0) add_path(folder, info.st_uid);
}

void PackSet::add_path(const std::string& path, uid_t owner) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return add_file(path, owner);
  for (const std::string& file : packs_in(path)) add_file(file, owner);
}

void PackSet::add_file(const std::string& path, uid_t owner) {
  for (const CacheLayer& layer : layers_) {
    if (layer.path == path) return;
  }
  Result<CodePack> pack = CodePack::open(path, owner);
  layers_.push_back({CacheLayer::Kind::kPack, path, false, pack.status()});
  if (pack.ok()) {
    Opened opened{std::move(*pack), nullptr};
    opened.states = std::make_unique<std::atomic<State>[]>(opened.pack.entries().size());
    packs_.push_back(std::move(opened));
    return;
  }
  if (pack.status().code() == StatusCode::kCorrupt) count(counters_.cache_corrupt);
  warn_of_pack(pack.status());
}

const PackEntry* PackSet::find_sound(const Digest& content, const CompileRequest& request,
                                     std::vector<std::byte>* code) const {
  for (const Opened& opened : packs_) {
    const PackEntry* found = opened.pack.find(content, request.target);
    if (found == nullptr || found->entry != request.entry) continue;
    std::atomic<State>& state = opened.states[found->index];
    const State known = state.load(std::memory_order_relaxed);
    if (known == kBad) continue;
    if (known == kGood && code == nullptr) return found;
    Result<std::vector<std::byte>> read = opened.pack.read(*found);
    state.store(read.ok() ? kGood : kBad, std::memory_order_relaxed);
    if (read.ok()) {
      if (code != nullptr) *code = std::move(*read);
      return found;
    }
    count(counters_.cache_corrupt);
    // One warning a pack, however many of its entries are bad.
    if (log_first_time("pack: " + opened.pack.path())) {
      log(LogLevel::kWarn, "jit", "{}; it counts as a miss", read.status().message());
    }
  }
  return nullptr;
}

bool PackSet::has(const Digest& content, const CompileRequest& request) const {
  return find_sound(content, request, nullptr) != nullptr;
}

Result<Artifact> PackSet::find(const Digest& content, const CompileRequest& request) const {
  Artifact artifact;
  const PackEntry* entry = find_sound(content, request, &artifact.image);
  if (entry == nullptr) {
    return Status(StatusCode::kNotFound, fmt::format("jit: no pack has '{}' for {}", request.name, request.target));
  }
  artifact.kind = entry->kind;
  artifact.target = entry->target;
  artifact.entry = entry->entry;
  return artifact;
}

std::vector<CacheEntryInfo> PackSet::list() const {
  std::vector<CacheEntryInfo> entries;
  for (const CacheLayer& layer : layers_) {
    if (layer.problem.ok()) continue;
    CacheEntryInfo info;
    info.name = fs::path(layer.path).filename().string();
    info.path = layer.path;
    info.problem = layer.problem.message();
    info.other_version = layer.problem.code() == StatusCode::kUnsupported;
    entries.push_back(std::move(info));
  }
  for (const Opened& opened : packs_) {
    for (const PackEntry& entry : opened.pack.entries()) {
      CacheEntryInfo info;
      info.name = entry.name;
      info.digest = entry.content.hex();
      info.target = entry.target;
      info.compiler = entry.compiler;
      info.path = opened.pack.path();
      info.bytes = entry.bytes;
      const Status read = opened.pack.read(entry).status();
      info.valid = read.ok();
      info.problem = read.message();
      entries.push_back(std::move(info));
    }
  }
  return entries;
}

}  // namespace tilewright
