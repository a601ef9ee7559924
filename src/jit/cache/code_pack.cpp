// SPDX-License-Identifier: MIT
#include "jit/cache/code_pack.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "jit/cache/cache_entry.hpp"
#include "jit/cache/cache_root.hpp"
#include "jit/system/trust.hpp"

namespace tilewright {
namespace {

constexpr int kPackVersion = 1;
constexpr std::string_view kMagic = "tilewright pack ";
constexpr int64_t kHeaderBytes = 128;
constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
constexpr int64_t kMaxCodeBytes = int64_t{1} << 30;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string header_line(int64_t index_bytes, std::string_view index_digest) {
  std::string line =
      fmt::format("{}{} abi {} index {} {}", kMagic, kPackVersion, kKernelAbi, index_bytes, index_digest);
  line.resize(kHeaderBytes - 1, ' ');
  return line + '\n';
}

// Words of one line, and the rest as it is.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  std::string_view next() {
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(std::min(word.size() + 1, rest_.size()));
    return word;
  }
  bool number(int64_t& value) {
    const std::string_view word = next();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && value >= 0;
  }
  bool digest(Digest& value) {
    Result<Digest> parsed = Digest::parse(next());
    if (parsed.ok()) value = *parsed;
    return parsed.ok();
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  return text;
}

Status corrupt_pack(const std::string& path, std::string_view reason) {
  return Status(StatusCode::kCorrupt, fmt::format("pack '{}': {}", path, reason));
}

Status read_exactly(int file, int64_t offset, int64_t bytes, void* to) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = pread(file, static_cast<char*>(to) + done, static_cast<size_t>(bytes - done),
                              static_cast<off_t>(offset + done));
    if (got > 0) {
      done += got;
    } else if (got == 0) {
      return Status(StatusCode::kCorrupt, "the file ends early");
    } else if (errno != EINTR) {
      return Status(StatusCode::kIoError, std::strerror(errno));
    }
  }
  return {};
}

}  // namespace

Status write_pack(const std::string& path, std::vector<PackedCode> entries) {
  std::sort(entries.begin(), entries.end(), [](const PackedCode& a, const PackedCode& b) {
    return a.entry.content != b.entry.content ? a.entry.content < b.entry.content : a.entry.target < b.entry.target;
  });
  std::vector<std::string> compilers;
  std::string lines, blob;
  // Offsets are counted from the first entry: the length of the index then does not depend on itself.
  for (PackedCode& packed : entries) {
    PackEntry& e = packed.entry;
    const std::string compiler = one_line(e.compiler);
    auto known = std::find(compilers.begin(), compilers.end(), compiler);
    if (known == compilers.end()) known = compilers.insert(known, compiler);
    e.offset = static_cast<int64_t>(blob.size());
    e.bytes = static_cast<int64_t>(packed.code.size());
    e.code = digest_of(packed.code);
    if (e.target.empty() || e.entry.empty() || e.target.find_first_of(" \n") != std::string::npos ||
        e.entry.find_first_of(" \n") != std::string::npos) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("pack: target '{}' and entry '{}' must be words", e.target, e.entry));
    }
    lines += fmt::format("entry {} {} {} {} {} {} {} {} {}\n", e.content.hex(), e.code.hex(), e.offset, e.bytes,
                         artifact_kind_name(e.kind), known - compilers.begin(), e.target, e.entry, one_line(e.name));
    blob += packed.code;
    blob.resize(static_cast<size_t>(aligned(static_cast<int64_t>(blob.size()))));
  }
  std::string index;
  for (const std::string& compiler : compilers) index += fmt::format("compiler {}\n", compiler);
  index += lines;
  if (static_cast<int64_t>(index.size()) > kMaxIndexBytes) {
    return Status(StatusCode::kInvalidArgument, fmt::format("pack: {} entries are too many", entries.size()));
  }
  std::string text = header_line(static_cast<int64_t>(index.size()), digest_of(index).hex()) + index;
  text.resize(static_cast<size_t>(aligned(static_cast<int64_t>(text.size()))));
  text += blob;

  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  Result<std::string> folder = make_unique_folder(parent, ".tilewright-pack-");
  if (!folder) return folder.status();
  const ScopedFolder scoped(std::move(*folder));
  const std::string fresh = scoped.path() + "/pack";
  if (Status s = write_file(fresh, text, Durability::kSynced); !s) return s;
  // Everybody may read it, nobody else may write: what CodePack::open() asks for.
  if (chmod(fresh.c_str(), 0644) != 0 || std::rename(fresh.c_str(), path.c_str()) != 0) {
    return Status(StatusCode::kIoError, fmt::format("cannot write pack '{}': {}", path, std::strerror(errno)));
  }
  sync_path(parent);
  return {};
}

Result<CodePack> CodePack::open(const std::string& path, uid_t owner) {
  CodePack pack;
  pack.path_ = path;
  pack.file_ = ScopedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info;
  if (!pack.file_ || fstat(pack.file_.get(), &info) != 0) {
    const int error = errno;
    return Status(error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
                  fmt::format("pack '{}': {}", path, std::strerror(error)));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kUnsupported, fmt::format("pack '{}' is not used: it is not a regular file", path));
  }
  if (Status s = check_trusted("pack", path, info, {0, owner}); !s) return s;
  pack.file_bytes_ = info.st_size;
  char line[kHeaderBytes];
  if (Status s = read_exactly(pack.file_.get(), 0, kHeaderBytes, line); !s) return corrupt_pack(path, s.message());
  const std::string_view header(line, kHeaderBytes);
  if (header.substr(0, kMagic.size()) != kMagic) return corrupt_pack(path, "it does not begin like a pack");
  Words words(header.substr(kMagic.size()));
  int64_t version = 0, abi = 0, bytes = 0;
  Digest digest;
  if (!words.number(version)) return corrupt_pack(path, "the first line is damaged");
  if (version != kPackVersion) {
    return Status(StatusCode::kUnsupported, fmt::format("pack '{}' has format version {}, this library reads {}; "
                                                        "make it again with `tilewright prebuild --out`",
                                                        path, version, kPackVersion));
  }
  if (words.next() != "abi" || !words.number(abi) || words.next() != "index" || !words.number(bytes) ||
      !words.digest(digest) || header.back() != '\n' || bytes > kMaxIndexBytes ||
      bytes > pack.file_bytes_ - kHeaderBytes) {
    return corrupt_pack(path, "the first line is damaged");
  }
  // Its digests cover the ABI too and would never match: said here in words.
  if (abi != kKernelAbi) {
    return Status(StatusCode::kUnsupported, fmt::format("pack '{}' is for kernel ABI {}, this library's is {}; make it "
                                                        "again with `tilewright prebuild --out`",
                                                        path, abi, kKernelAbi));
  }
  std::string index(static_cast<size_t>(bytes), '\0');
  if (Status s = read_exactly(pack.file_.get(), kHeaderBytes, bytes, index.data()); !s) {
    return corrupt_pack(path, s.message());
  }
  if (digest_of(index) != digest) return corrupt_pack(path, "the index has changed since it was written");
  if (Status s = pack.parse_index(index); !s) return s;
  return pack;
}

Status CodePack::parse_index(std::string_view text) {
  const int64_t first = aligned(kHeaderBytes + static_cast<int64_t>(text.size()));
  std::vector<std::string> compilers;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    Words words(line);
    const std::string_view kind = words.next();
    if (kind == "compiler") {
      compilers.emplace_back(words.rest());
      continue;
    }
    PackEntry e;
    int64_t compiler = 0;
    if (kind != "entry" || !words.digest(e.content) || !words.digest(e.code) || !words.number(e.offset) ||
        !words.number(e.bytes) || !parse_artifact_kind(words.next(), e.kind) || !words.number(compiler) ||
        compiler >= static_cast<int64_t>(compilers.size())) {
      return corrupt_pack(path_, "the index has another form");
    }
    e.target = words.next();
    e.entry = words.next();
    e.name = words.rest();
    e.compiler = compilers[static_cast<size_t>(compiler)];
    if (e.bytes > kMaxCodeBytes || e.offset > file_bytes_ - first || e.bytes > file_bytes_ - first - e.offset) {
      return corrupt_pack(path_, fmt::format("'{}' lies past the end of the file: it was cut short", e.name));
    }
    e.offset += first;
    e.index = entries_.size();
    entries_.push_back(std::move(e));
    by_content_.emplace(entries_.back().content, &entries_.back());
  }
  return {};
}

const PackEntry* CodePack::find(const Digest& content, std::string_view target) const {
  const auto it = by_content_.find(content);
  return it == by_content_.end() || it->second->target != target ? nullptr : it->second;
}

Result<std::vector<std::byte>> CodePack::read(const PackEntry& entry) const {
  std::vector<std::byte> code(static_cast<size_t>(entry.bytes));
  if (Status s = read_exactly(file_.get(), entry.offset, entry.bytes, code.data()); !s) {
    return Status(s.code(), fmt::format("pack '{}': '{}': {}", path_, entry.name, s.message()));
  }
  if (digest_of({reinterpret_cast<const char*>(code.data()), code.size()}) != entry.code) {
    return corrupt_pack(path_, fmt::format("'{}' has changed since it was written", entry.name));
  }
  return code;
}

}  // namespace tilewright
