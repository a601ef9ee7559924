// SPDX-License-Identifier: MIT
// An ahead-of-time pack: one file with compiled instances of one or several targets, found by what they were compiled
// from and not by which compiler did it, so that no compiler is needed where a pack is used.
//
//   line of 128 bytes   "tilewright pack 1 abi 1 index <bytes> <digest of the index>", blanks, newline
//   index               text, one line a compiler and one line an entry; `head` shows it
//   code                each entry at a multiple of 64 bytes, with its own digest in the index
//
// The file is read with pread and never mapped: somebody who cuts a mapped file short kills every process that maps it.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "device/device.hpp"
#include "jit/system/files.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

inline constexpr std::string_view kPackSuffix = ".twpack";

struct PackEntry {
  Digest content;  // what it was compiled from: CodeCache::content_digest()
  std::string name, target, entry, compiler;
  ArtifactKind kind = ArtifactKind::kHostObject;
  Digest code;  // of the bytes
  int64_t offset = 0, bytes = 0;
  size_t index = 0;  // among the pack's entries
};

// What write_pack() takes: an entry whose place and digest follow from the code.
struct PackedCode {
  PackEntry entry;
  std::string code;
};

// Replaces `path` in one step. Entries are stored in the order of their digests: the same entries make the same file.
Status write_pack(const std::string& path, std::vector<PackedCode> entries);

class CodePack {
 public:
  // The file must be a regular one that `owner`, this user or root owns and that nobody else may write to: its code will
  // be run. kCorrupt: damaged; kUnsupported: not trusted, or of another version.
  static Result<CodePack> open(const std::string& path, uid_t owner);

  const std::string& path() const { return path_; }
  int64_t file_bytes() const { return file_bytes_; }
  const std::deque<PackEntry>& entries() const { return entries_; }
  // Null when the pack has no such code for the target.
  const PackEntry* find(const Digest& content, std::string_view target) const;
  // The entry's bytes, whose digest was checked: kCorrupt, kIoError.
  Result<std::vector<std::byte>> read(const PackEntry& entry) const;

 private:
  CodePack() = default;
  Status parse_index(std::string_view text);

  std::string path_;
  ScopedFd file_;
  int64_t file_bytes_ = 0;
  std::deque<PackEntry> entries_;
  std::map<Digest, const PackEntry*> by_content_;
};

}  // namespace tilewright
