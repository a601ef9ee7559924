// SPDX-License-Identifier: MIT
#include "jit/cache/cache_entry.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <charconv>
#include <ctime>

#include "jit/system/files.hpp"

namespace tilewright {
namespace {

constexpr const char* kMetadataFile = "metadata";
constexpr std::string_view kFirstWords = "tilewright cache entry ";
constexpr std::string_view kFirstLine = "tilewright cache entry 2\n";
constexpr std::string_view kCheck = "check ";

constexpr const char* kKindNames[] = {"builtin", "host_object", "cubin", "amd_object", "emulated"};

// The one list of metadata lines, "name value".
template <class Data, class Visit>
void for_each_line(Data& data, Visit visit) {
  visit("name", data.name);
  visit("digest", data.digest);
  visit("target", data.target);
  visit("entry", data.entry);
  visit("compiler", data.compiler);
  visit("library", data.library);
  visit("created", data.created);
  visit("kind", data.kind);
  visit("binary", data.binary);
  visit("binary_bytes", data.binary_bytes);
  visit("binary_digest", data.binary_digest);
}

std::string print(const std::string& value) {
  std::string line = value;
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}
std::string print(int64_t value) { return fmt::format("{}", value); }
std::string print(ArtifactKind kind) { return artifact_kind_name(kind); }

bool parse(std::string_view text, std::string& value) {
  value = text;
  return true;
}
bool parse(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse(std::string_view text, ArtifactKind& kind) { return parse_artifact_kind(text, kind); }

Status corrupt_entry(const std::string& folder, std::string_view reason) {
  return Status(StatusCode::kCorrupt, fmt::format("cache entry '{}': {}", folder, reason));
}

Result<CacheEntryData> parse_metadata(const std::string& folder, std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n') + 1);
  if (first.substr(0, kFirstWords.size()) == kFirstWords && first != kFirstLine &&
      first.size() <= kFirstLine.size() + 2) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("cache entry '{}': another version of tilewright wrote it", folder));
  }
  // The last line is the digest of all before it: one look finds cut and changed metadata.
  const size_t check = text.rfind(kCheck);
  if (text.substr(0, kFirstLine.size()) != kFirstLine || check == std::string_view::npos ||
      text.substr(check) != fmt::format("{}{}\n", kCheck, digest_of(text.substr(0, check)).hex())) {
    return corrupt_entry(folder, "the metadata is damaged");
  }
  text = text.substr(kFirstLine.size(), check - kFirstLine.size());
  CacheEntryData data;
  bool good = true;
  for_each_line(data, [&](std::string_view name, auto& value) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    good = good && line.size() > name.size() && line.substr(0, name.size()) == name && line[name.size()] == ' ' &&
           parse(line.substr(name.size() + 1), value);
  });
  if (!good || data.binary.find('/') != std::string::npos)
    return corrupt_entry(folder, "the metadata has another form");
  return data;
}

}  // namespace

const char* artifact_kind_name(ArtifactKind kind) { return kKindNames[static_cast<int>(kind)]; }
bool parse_artifact_kind(std::string_view text, ArtifactKind& kind) {
  for (int i = 0; i < static_cast<int>(std::size(kKindNames)); ++i) {
    if (text == kKindNames[i]) {
      kind = static_cast<ArtifactKind>(i);
      return true;
    }
  }
  return false;
}

std::string readable_name(std::string_view name) {
  std::string readable(name.substr(0, 96));
  for (char& c : readable) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return readable.empty() ? "unnamed" : readable;
}

std::string library_version() { return TILEWRIGHT_VERSION; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Status commit_entry(const std::string& folder, CacheEntryData& data) {
  const std::string path = folder + "/" + data.binary;
  Result<std::string> binary = read_file(path);
  if (!binary) return binary.status();
  data.binary_bytes = static_cast<int64_t>(binary->size());
  data.binary_digest = digest_of(*binary).hex();
  data.code = std::move(*binary);
  std::string text(kFirstLine);
  for_each_line(data, [&](const char* name, const auto& value) { text += fmt::format("{} {}\n", name, print(value)); });
  text += fmt::format("{}{}\n", kCheck, digest_of(text).hex());
  if (Status status = write_file(folder + "/" + kMetadataFile, text); !status) return status;
  return {};
}

Result<CacheEntryData> read_entry(const std::string& folder) {
  Result<std::string> metadata = read_file(folder + "/" + kMetadataFile);
  if (!metadata) {
    struct stat info;
    if (stat(folder.c_str(), &info) != 0) {
      return Status(StatusCode::kNotFound, fmt::format("no cache entry '{}'", folder));
    }
    return corrupt_entry(folder, metadata.status().message());
  }
  Result<CacheEntryData> data = parse_metadata(folder, *metadata);
  if (!data) return data;
  Result<std::string> binary = read_file(folder + "/" + data->binary);
  if (!binary) return corrupt_entry(folder, binary.status().message());
  if (static_cast<int64_t>(binary->size()) != data->binary_bytes) {
    return corrupt_entry(
        folder, fmt::format("'{}' has {} bytes instead of {}", data->binary, binary->size(), data->binary_bytes));
  }
  if (digest_of(*binary).hex() != data->binary_digest) {
    return corrupt_entry(folder, fmt::format("'{}' has changed since it was written", data->binary));
  }
  data->code = std::move(*binary);
  return data;
}

}  // namespace tilewright
