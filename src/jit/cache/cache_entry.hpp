// SPDX-License-Identifier: MIT
// One entry of the code cache on disk: a folder with source, binary, build log and, written last, its metadata.
#pragma once

#include <string>

#include "core/digest.hpp"
#include "device/device.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

struct CacheEntryData {
  std::string name;    // readable
  std::string digest;  // what the entry is an answer to
  std::string target;
  std::string entry;     // the function inside
  std::string compiler;  // identity
  std::string library;   // version of tilewright, for upkeep
  std::string created;   // UTC, for people
  ArtifactKind kind = ArtifactKind::kHostObject;
  std::string binary;  // file name inside the folder
  int64_t binary_bytes = 0;
  std::string binary_digest;
  std::string code;  // the binary itself, as it was checked; no line of the metadata
};

const char* artifact_kind_name(ArtifactKind kind);  // "host_object"
bool parse_artifact_kind(std::string_view text, ArtifactKind& kind);

// "my key/1" -> "my_key_1", cut to a length that file systems take.
std::string readable_name(std::string_view name);
std::string utc_now();

// Measures and hashes `data.binary` inside `folder`, then writes the metadata: the entry is complete. Nothing is
// waited for: what a power cut leaves half written does not match its digest, and is a miss. Sets size, digest and code.
Status commit_entry(const std::string& folder, CacheEntryData& data);

std::string library_version();

// kNotFound: no such folder. kUnsupported: another version of tilewright wrote it. kCorrupt: the folder is there, but metadata or binary are missing, cut short or changed.
Result<CacheEntryData> read_entry(const std::string& folder);

}  // namespace tilewright
