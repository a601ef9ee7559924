// SPDX-License-Identifier: MIT
// The packs of one process, in order: those that were named, then those beside the library. What is wrong with one is
// said once, and costs that pack or entry alone.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/counters.hpp"
#include "jit/cache/code_pack.hpp"
#include "jit/code_cache.hpp"
#include "jit/compiler.hpp"

namespace tilewright {

// Where packs of an installation lie; "" when there is no such folder. lib/libtilewright.so -> share/tilewright/packs;
// a Python package's module -> packs beside it.
std::string library_packs_folder();

class PackSet {
 public:
  // Files, or folders of *.twpack. Opened here; never changed afterwards, so that threads and forked children share it
  // without a lock.
  PackSet(const std::vector<std::string>& named, bool beside_library, Counters& counters);

  bool empty() const { return packs_.empty(); }
  // Whether find() would succeed: the code was read and checked once.
  bool has(const Digest& content, const CompileRequest& request) const;
  // kNotFound: no pack has it. The artifact carries its bytes.
  Result<Artifact> find(const Digest& content, const CompileRequest& request) const;

  // In the order of search, those that are not used among them.
  const std::vector<CacheLayer>& layers() const { return layers_; }
  // Every entry of every pack, read and checked; a pack that is not used is one entry with the reason.
  std::vector<CacheEntryInfo> list() const;

 private:
  enum State : uint8_t { kUnread, kGood, kBad };
  struct Opened {
    CodePack pack;
    std::unique_ptr<std::atomic<State>[]> states;  // of the entries, in order
  };
  void add_path(const std::string& path, uid_t owner);
  void add_file(const std::string& path, uid_t owner);
  // The first sound entry; null when there is none. Without `code` what was checked before is not read again.
  const PackEntry* find_sound(const Digest& content, const CompileRequest& request, std::vector<std::byte>* code) const;

  Counters& counters_;
  std::deque<Opened> packs_;
  std::vector<CacheLayer> layers_;
};

}  // namespace tilewright
