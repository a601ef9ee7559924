// SPDX-License-Identifier: MIT
// digest -> artifact: memory, then ahead-of-time packs, then disk, then compile. Content-addressed; published by atomic
// rename; reads take no lock; a damaged entry is a miss (design promise 7).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/counters.hpp"
#include "jit/compiler.hpp"

namespace tilewright {

enum class JitMode : uint8_t {
  kOff,         // never compile
  kOn,          // compile on a miss
  kBackground,  // a miss is compiled on another thread; get() fails with kCompileDisabled until it is there
  kForce,       // compile even when an entry exists (for debugging)
};

struct CodeCacheOptions {
  std::string root;                     // writable root; "" = none (memory and packs only)
  std::vector<std::string> read_roots;  // further roots, read only, searched in order
  std::vector<std::string> packs;       // ahead-of-time packs: files, or folders of *.twpack, searched in order
  bool library_packs = true;            // then those beside the library
  JitMode mode = JitMode::kOn;
  double lock_wait_seconds = 20;  // then build anyway
};

// From TILEWRIGHT_CACHE_DIR, TILEWRIGHT_CACHE_READ and TILEWRIGHT_PACKS (colon-separated), TILEWRIGHT_JIT.
CodeCacheOptions code_cache_options_from_environment();

struct CacheEntryInfo {
  std::string name, digest, target, compiler, created;
  std::string library;  // version that made it
  std::string path;     // its folder, or the pack it is in
  ArtifactKind kind = ArtifactKind::kHostObject;
  int64_t bytes = 0;
  double age_seconds = 0;  // 0 in packs, and for times in the future
  bool valid = false;
  bool other_version = false;  // not valid because another version of tilewright wrote it
  std::string problem;         // why it is not valid
};

// Where artifacts may come from, in the order of search.
struct CacheLayer {
  enum class Kind : uint8_t { kPack, kReadRoot, kRoot };
  Kind kind = Kind::kRoot;
  std::string path;
  bool writable = false;
  Status problem;  // why it is not used, or not written to
};

struct PruneOptions {
  std::optional<int64_t> keep_bytes;      // remove the oldest entries until so much is left
  std::optional<double> max_age_seconds;  // remove what is older
  bool stale = false;                     // remove what other versions, other compilers and damage left
  bool dry_run = false;
};
struct PruneReport {
  struct Item {
    std::string path;
    int64_t bytes;
    std::string reason;
  };
  std::vector<Item> removed;
  int64_t bytes = 0;
};

class CodeCache {
 public:
  CodeCache(const CodeCacheOptions& options, Counters& counters);
  ~CodeCache();
  CodeCache(const CodeCache&) = delete;
  CodeCache& operator=(const CodeCache&) = delete;

  // What is compiled: source and entry name, reachable headers, flags, target and ABI version. Needs no compiler on the
  // machine; packs are searched by it.
  static Result<Digest> content_digest(const CompileRequest& request, const Compiler& compiler);
  // The content and the compiler's identity, nothing else: the name of an entry on disk.
  static Result<Digest> digest(const CompileRequest& request, const Compiler& compiler);

  // Whether get() would succeed without compiling.
  bool has(const CompileRequest& request, const Compiler& compiler);
  // Compiles on a miss unless the mode forbids it (kCompileDisabled names the instance). Threads that ask for the same
  // digest share one compile; an error reaches every waiter and is not remembered.
  Result<Artifact> get(const CompileRequest& request, Compiler& compiler);

  // Identities of the compilers that filled the cache's folders: where there is none now, their entries serve.
  std::vector<std::string> earlier_compilers() const;

  // Counts background compiles that came to an end, well or badly: while it stands still, asking again is of no use.
  uint64_t background_generation() const;

  JitMode mode() const;
  void set_mode(JitMode mode);
  const std::string& root() const;  // "" with the reason in root_problem()
  const Status& root_problem() const;

  // Every entry is read and checked. Of the writable (or read-only) root alone, or of every layer.
  std::vector<CacheEntryInfo> list();
  std::vector<CacheEntryInfo> list_all();
  std::vector<CacheLayer> layers();
  // Of the root. What a call is about to use may go with the rest: it is built again.
  Result<PruneReport> prune(const PruneOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
