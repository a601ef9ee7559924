// SPDX-License-Identifier: MIT
// Where artifacts lie and how they get there: finds entries in the cache's folders, builds and publishes new ones. Knows
// nothing of threads that wait for each other; that is the code cache's part.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/counters.hpp"
#include "jit/cache/cache_root.hpp"
#include "jit/code_cache.hpp"

namespace tilewright {

// A folder of this process alone, made when it is first needed and removed with the object: for artifacts that no cache
// folder can hold.
class PrivateFolder {
 public:
  PrivateFolder() = default;
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  Result<std::string> make_subfolder();

 private:
  std::mutex mutex_;
  std::string path_;
  pid_t owner_ = 0;
};

class EntryStore {
 public:
  EntryStore(const CodeCacheOptions& options, Counters& counters);

  const std::string& root() const { return root_path_; }
  const Status& root_problem() const { return root_problem_; }

  // kNotFound when no folder has a good entry. Takes no lock and writes nothing.
  Result<Artifact> find(const CompileRequest& request, const Digest& digest) const;

  // The same where the compiler that would be asked is absent, or may not be: entries of the compilers that filled a
  // folder, the latest first. `digest_of` makes an entry's name from a compiler's identity.
  Result<Artifact> find_of_earlier_compilers(const CompileRequest& request,
                                             const std::function<Digest(std::string_view identity)>& digest_of) const;
  // Their identities, in all folders.
  std::vector<std::string> earlier_compilers() const;

  // Compiles, unless another process did it in the meantime, and publishes. With `force`, replaces an existing entry.
  // What cannot be stored is built in `spare`, with one warning: a full disk costs the sharing, not the kernel. Ends soon
  // after `*stop` becomes true.
  Result<Artifact> build(const CompileRequest& request, Compiler& compiler, const Digest& digest, bool force,
                         PrivateFolder& spare, const std::atomic<bool>* stop) const;

  std::vector<CacheEntryInfo> list() const;
  std::vector<CacheEntryInfo> list_read_roots() const;
  std::vector<CacheLayer> layers() const;
  Result<PruneReport> prune(const PruneOptions& options) const;

 private:
  Result<Artifact> look_in(const CacheRoot& root, const CompileRequest& request, const Digest& digest) const;
  Result<Artifact> find_in(const CacheRoot& root, const CompileRequest& request, const Digest& digest) const;
  // The error is a problem of storing when `storage_problem` is set, else one of compiling.
  Result<Artifact> build_in_root(const CompileRequest& request, Compiler& compiler, const Digest& digest, bool force,
                                 bool& storage_problem, const std::atomic<bool>* stop) const;
  Result<Artifact> build_in_spare(const CompileRequest& request, Compiler& compiler, PrivateFolder& spare,
                                  const std::atomic<bool>* stop) const;
  Result<std::string> compile(const CompileRequest& request, Compiler& compiler, const std::string& folder,
                              const std::atomic<bool>* stop) const;

  Counters& counters_;
  double lock_wait_seconds_;
  std::string given_root_;
  mutable std::atomic<bool> lock_was_stuck_{false};
  std::optional<CacheRoot> root_;
  std::vector<CacheRoot> read_roots_;
  std::vector<CacheLayer> refused_;  // read roots that are not used
  std::string root_path_;
  Status root_problem_;
};

}  // namespace tilewright
