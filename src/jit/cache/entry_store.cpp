// SPDX-License-Identifier: MIT
#include "jit/cache/entry_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/profile/profile.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/cache/cache_upkeep.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// Of the wait for a lock, what is spent after one was waited for in vain.
constexpr double kStuckLockShare = 0.05;

// What was checked is what is loaded: a file that somebody cuts short while it is mapped would end every process that
// runs its code. Who works on kernels loads the file itself, where a profiler finds it.
std::vector<std::byte> image_of(const std::string& code) {
  if (environment("TILEWRIGHT_KERNEL_DIR")) return {};
  const auto* const bytes = reinterpret_cast<const std::byte*>(code.data());
  return {bytes, bytes + code.size()};
}

Artifact make_artifact(const CompileRequest& request, ArtifactKind kind, std::string path) {
  Artifact artifact;
  artifact.kind = kind;
  artifact.target = request.target;
  artifact.entry = request.entry;
  artifact.path = std::move(path);
  return artifact;
}

// A compiler tells of a full disk in words only.
bool tells_of_full_disk(const Status& status) {
  for (const char* words : {"No space left on device", "Disk quota exceeded", "File too large",
                            "File size limit exceeded", "Read-only file system"}) {
    if (status.message().find(words) != std::string::npos) return true;
  }
  return false;
}

// Every thread, context and look at the same thing would say it again.
void warn_once(const std::string& message) {
  if (log_first_time("jit: " + message)) log(LogLevel::kWarn, "jit", "{}", message);
}

bool is_stopped(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(std::memory_order_relaxed); }

bool is_compile_error(const Status& status) {
  return status.code() == StatusCode::kCompileFailed || status.code() == StatusCode::kTimeout;
}

}  // namespace

PrivateFolder::~PrivateFolder() {
  if (!path_.empty() && owner_ == getpid()) remove_tree(path_);
}

Result<std::string> PrivateFolder::make_subfolder() {
  const std::lock_guard lock(mutex_);
  if (path_.empty()) {
    std::error_code ignored;
    const std::string chosen = fs::temp_directory_path(ignored).string();  // $TMPDIR, else /tmp
    Status last;
    for (const std::string& parent : {chosen, std::string("/var/tmp"), std::string("/dev/shm")}) {
      Result<std::string> made = make_unique_folder(parent, "tilewright-");
      if (made.ok()) {
        path_ = std::move(*made);
        owner_ = getpid();
        break;
      }
      last = made.status();
    }
    if (path_.empty()) return last;
  }
  return make_unique_folder(path_, "");
}

EntryStore::EntryStore(const CodeCacheOptions& options, Counters& counters)
    : counters_(counters), lock_wait_seconds_(options.lock_wait_seconds), given_root_(options.root) {
  if (options.root.empty()) {
    root_problem_ = Status(StatusCode::kNotFound,
                           "code cache: no folder: none of TILEWRIGHT_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  } else if (Result<CacheRoot> opened = CacheRoot::open(options.root, CacheRoot::Use::kReadWrite); opened.ok()) {
    root_ = std::move(*opened);
    if (root_->writable()) {
      root_path_ = root_->path();
    } else {
      root_problem_ =
          Status(StatusCode::kUnsupported, fmt::format("code cache '{}' is read only; it is read from", root_->path()));
    }
  } else {
    root_problem_ = opened.status();
  }
  if (!root_problem_.ok()) warn_once(root_problem_.message());
  for (const std::string& path : options.read_roots) {
    Result<CacheRoot> opened = CacheRoot::open(path, CacheRoot::Use::kReadOnly);
    if (opened.ok()) {
      read_roots_.push_back(std::move(*opened));
    } else {
      refused_.push_back({CacheLayer::Kind::kReadRoot, path, false, opened.status()});
      warn_once(opened.status().message());
    }
  }
}

Result<Artifact> EntryStore::find_in(const CacheRoot& root, const CompileRequest& request, const Digest& digest) const {
  const std::string folder = root.entry_folder(request.name, digest);
  if (Status s = root.check_entry(folder); !s) return s;
  Result<CacheEntryData> data = read_entry(folder);
  if (!data) return data.status();
  if (data->digest != digest.hex() || data->target != request.target) {
    return Status(StatusCode::kCorrupt, fmt::format("cache entry '{}' is that of another instance", folder));
  }
  Artifact artifact = make_artifact(request, data->kind, folder + "/" + data->binary);
  artifact.image = image_of(data->code);
  return artifact;
}

// A damaged entry is a miss that is told of.
Result<Artifact> EntryStore::look_in(const CacheRoot& root, const CompileRequest& request, const Digest& digest) const {
  Result<Artifact> found = find_in(root, request, digest);
  if (!found && found.status().code() != StatusCode::kNotFound) {
    count(counters_.cache_corrupt);
    warn_once(found.status().message() + "; it counts as a miss");
  }
  return found;
}

Result<Artifact> EntryStore::find(const CompileRequest& request, const Digest& digest) const {
  for (const CacheRoot& root : read_roots_) {
    if (Result<Artifact> found = look_in(root, request, digest); found.ok()) return found;
  }
  if (root_) {
    if (Result<Artifact> found = look_in(*root_, request, digest); found.ok()) return found;
  }
  return Status(StatusCode::kNotFound, fmt::format("jit: no entry for '{}'", request.name));
}

Result<Artifact> EntryStore::find_of_earlier_compilers(
    const CompileRequest& request, const std::function<Digest(std::string_view identity)>& digest_of) const {
  const auto look = [&](const CacheRoot& root) -> Result<Artifact> {
    for (const std::string& identity : root.compilers()) {
      if (Result<Artifact> found = look_in(root, request, digest_of(identity)); found.ok()) return found;
    }
    return Status(StatusCode::kNotFound, fmt::format("jit: no entry of any compiler for '{}'", request.name));
  };
  for (const CacheRoot& root : read_roots_) {
    if (Result<Artifact> found = look(root); found.ok()) return found;
  }
  return root_ ? look(*root_) : Status(StatusCode::kNotFound, root_problem_.message());
}

std::vector<std::string> EntryStore::earlier_compilers() const {
  std::vector<std::string> all;
  const auto add = [&all](const CacheRoot& root) {
    for (std::string& identity : root.compilers()) {
      if (std::find(all.begin(), all.end(), identity) == all.end()) all.push_back(std::move(identity));
    }
  };
  for (const CacheRoot& root : read_roots_) add(root);
  if (root_) add(*root_);
  return all;
}

Result<std::string> EntryStore::compile(const CompileRequest& request, Compiler& compiler, const std::string& folder,
                                        const std::atomic<bool>* stop) const {
  const ProfileRange range(request.op.empty() ? "jit" : request.op, "compile", request.name);
  const auto begin = std::chrono::steady_clock::now();
  Result<std::string> binary = compiler.compile(request, folder, stop);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (binary.ok()) {
    count(counters_.compiles);
    log(LogLevel::kInfo, "jit", "compiled '{}' for {} in {:.0f} ms", request.name, request.target, seconds * 1e3);
  }
  return binary;
}

Result<Artifact> EntryStore::build(const CompileRequest& request, Compiler& compiler, const Digest& digest, bool force,
                                   PrivateFolder& spare, const std::atomic<bool>* stop) const {
  Result<Artifact> built = Status(StatusCode::kIoError, root_problem_.message());
  if (root_ && root_->writable()) {
    bool storage_problem = false;
    built = build_in_root(request, compiler, digest, force, storage_problem, stop);
    if (storage_problem && !is_stopped(stop)) {
      if (log_first_time("jit: cannot store: " + root_path_)) {  // whatever the reasons are
        log(LogLevel::kWarn, "jit", "code cache '{}' takes no new entries: {}; kernels are built for this process only",
            root_path_, built.status().message());
      }
      built = build_in_spare(request, compiler, spare, stop);
    }
  } else {
    built = build_in_spare(request, compiler, spare, stop);
  }
  if (!built && !is_stopped(stop)) {
    count(counters_.compile_failures);
    log(LogLevel::kError, "jit", "{}", built.status().message());
  }
  return built;
}

Result<Artifact> EntryStore::build_in_spare(const CompileRequest& request, Compiler& compiler, PrivateFolder& spare,
                                            const std::atomic<bool>* stop) const {
  Result<std::string> folder = spare.make_subfolder();
  if (!folder) return folder.status();
  Result<std::string> binary = compile(request, compiler, *folder, stop);
  if (!binary) return binary.status();
  return make_artifact(request, compiler.kind(), *folder + "/" + *binary);
}

Result<Artifact> EntryStore::build_in_root(const CompileRequest& request, Compiler& compiler, const Digest& digest,
                                           bool force, bool& storage_problem, const std::atomic<bool>* stop) const {
  const CacheRoot& root = *root_;
  const std::string entry = root.entry_folder(request.name, digest);
  const auto of_no_use = [&] { return is_stopped(stop) || (!force && find_in(root, request, digest).ok()); };

  // A lock that was waited for in vain is held by nobody who works (a dead machine behind a network file system, a
  // frozen container), and so may the next ones be: each further wait of this process is short.
  const double patience = lock_wait_seconds_ * (lock_was_stuck_.load() ? kStuckLockShare : 1);
  const CacheRoot::Lock lock = root.lock(digest, patience, of_no_use);
  if (lock.timed_out()) lock_was_stuck_ = true;
  if (!lock.held()) log(LogLevel::kDebug, "jit", "'{}' is built without the lock", request.name);
  if (!force) {
    Result<Artifact> found = find_in(root, request, digest);
    if (found.ok()) {
      count(counters_.cache_disk_hits);
      return found;
    }
    if (found.status().code() != StatusCode::kNotFound) root.set_aside(entry);
  }

  Result<std::string> made = root.make_build_folder();
  storage_problem = !made.ok();
  if (!made) return made.status();
  ScopedFolder folder(std::move(*made));
  Result<std::string> binary = compile(request, compiler, folder.path(), stop);
  if (!binary) {
    storage_problem = !is_compile_error(binary.status()) || tells_of_full_disk(binary.status());
    return binary.status();
  }

  // Only a folder of headers (TILEWRIGHT_KERNEL_DIR) can have changed since the digest was taken.
  if (Result<Digest> now = CodeCache::digest(request, compiler); !now || *now != digest) {
    return Status(StatusCode::kCompileFailed,
                  fmt::format("jit: '{}': the kernel headers changed during the compile; try again", request.name));
  }

  CacheEntryData data;
  data.name = request.name;
  data.digest = digest.hex();
  data.target = request.target;
  data.entry = request.entry;
  data.compiler = compiler.identity();
  data.library = library_version();
  data.created = utc_now();
  data.kind = compiler.kind();
  data.binary = *binary;
  if (Status committed = commit_entry(folder.path(), data); !committed) {
    storage_problem = true;
    return committed;
  }
  root.record_compiler(data.compiler);
  // Second try: what stands there may be damaged, or (with force) old.
  for (int attempt = 0; attempt < 2; ++attempt) {
    Result<bool> published = root.publish(folder.path(), entry);
    if (!published) {
      storage_problem = true;
      return published.status();
    }
    if (*published) {
      folder.release();
      Artifact artifact = make_artifact(request, data.kind, entry + "/" + *binary);
      artifact.image = image_of(data.code);
      return artifact;
    }
    if (Result<Artifact> found = find_in(root, request, digest); found.ok() && !force) return found;
    if (force) {
      root.remove(entry);
    } else {
      root.set_aside(entry);
    }
  }
  storage_problem = true;
  return Status(StatusCode::kIoError, fmt::format("cannot replace '{}'", entry));
}

std::vector<CacheEntryInfo> EntryStore::list() const {
  return root_ ? list_entries(*root_) : std::vector<CacheEntryInfo>();
}

std::vector<CacheEntryInfo> EntryStore::list_read_roots() const {
  std::vector<CacheEntryInfo> entries;
  for (const CacheRoot& root : read_roots_) {
    for (CacheEntryInfo& entry : list_entries(root)) entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<CacheLayer> EntryStore::layers() const {
  std::vector<CacheLayer> layers;
  for (const CacheRoot& root : read_roots_) layers.push_back({CacheLayer::Kind::kReadRoot, root.path(), false, {}});
  layers.insert(layers.end(), refused_.begin(), refused_.end());
  layers.push_back({CacheLayer::Kind::kRoot, given_root_, root_ && root_->writable(), root_problem_});
  return layers;
}

Result<PruneReport> EntryStore::prune(const PruneOptions& options) const {
  if (!root_ || !root_->writable()) return root_problem_;
  return prune_entries(*root_, options, [](const CacheEntryInfo& entry) {
    const Compiler& compiler = compiler_for(entry.target, entry.kind == ArtifactKind::kEmulated);
    return compiler.available().ok() ? compiler.identity() : std::string();
  });
}

}  // namespace tilewright
