// SPDX-License-Identifier: MIT
#include "jit/cache/cache_root.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "jit/cache/cache_entry.hpp"
#include "jit/system/trust.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// No build lasts this long: what is older was left by a process that was killed.
constexpr auto kStaleBuild = std::chrono::hours(24);

constexpr const char* kWhat = "code cache";

// More compilers than this nobody looks for.
constexpr size_t kMaxCompilers = 16;

Status refuse_root(const std::string& path, std::string_view reason) {
  return Status(StatusCode::kUnsupported, fmt::format("{} '{}' is not used: {}", kWhat, path, reason));
}

// Names in a folder; none when it cannot be read.
std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) found.push_back(*it);
  return found;
}

}  // namespace

CacheRoot::CacheRoot(std::string path, bool writable, uid_t other_owner)
    : path_(std::move(path)),
      abi_folder_(fmt::format("{}/abi{}", path_, kKernelAbi)),
      writable_(writable),
      other_owner_(other_owner) {}

Result<CacheRoot> CacheRoot::open(const std::string& given, Use use) {
  std::error_code error;
  const std::string path = fs::absolute(given, error).lexically_normal().string();
  if (given.empty() || error) return refuse_root(given, "it names no folder");
  if (use == Use::kReadWrite) {
    if (Status made = make_folders(path); !made) return refuse_root(path, made.message());
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return refuse_root(path, std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return refuse_root(path, "it is not a folder");
  CacheRoot root(path, /*writable=*/false, use == Use::kReadOnly ? 0 : geteuid());
  if (Status s = check_trusted(kWhat, path, info, {root.other_owner_}); !s) return s;
  // Entries lie deeper: whoever made or opened a folder on the way could put code there.
  struct stat inner;
  if (lstat(root.abi_folder_.c_str(), &inner) == 0) {
    if (Status s = check_trusted(kWhat, root.abi_folder_, inner, {root.other_owner_}); !s) return s;
  }
  root.writable_ = use == Use::kReadWrite && faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  return root;
}

Status CacheRoot::check_entry(const std::string& entry_folder) const {
  for (const std::string& folder : {entry_folder.substr(0, entry_folder.rfind('/')), entry_folder}) {
    struct stat info;
    if (lstat(folder.c_str(), &info) != 0) {
      return Status(StatusCode::kNotFound, fmt::format("no cache entry '{}'", entry_folder));
    }
    if (!S_ISDIR(info.st_mode)) {
      return Status(StatusCode::kCorrupt, fmt::format("cache entry '{}': it is not a folder", folder));
    }
    if (Status s = check_trusted(kWhat, folder, info, {other_owner_}); !s) return s;
  }
  return {};
}

std::string CacheRoot::entry_folder(std::string_view name, const Digest& digest) const {
  const std::string hex = digest.hex();
  return fmt::format("{}/{}/{}-{}", abi_folder_, hex.substr(0, 2), readable_name(name), hex);
}

std::vector<std::string> CacheRoot::entry_folders() const {
  std::vector<std::string> folders;
  for (const fs::path& group : children(abi_folder_)) {
    if (group.filename().native().size() != 2) continue;
    for (const fs::path& entry : children(group)) folders.push_back(entry.string());
  }
  return folders;
}

Result<std::string> CacheRoot::make_build_folder() const {
  const std::string parent = abi_folder_ + "/building";
  if (Status made = make_folders(parent); !made) return made;
  return make_unique_folder(parent, "");
}

Result<bool> CacheRoot::publish(const std::string& build_folder, const std::string& entry_folder) const {
  const std::string parent = entry_folder.substr(0, entry_folder.rfind('/'));
  if (Status made = make_folders(parent); !made) return made;
  // A folder replaces an empty folder only: whoever comes second gets an error and finds the first one's work.
  if (std::rename(build_folder.c_str(), entry_folder.c_str()) == 0) return true;
  if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) return false;
  return Status(StatusCode::kIoError, fmt::format("cannot publish '{}': {}", entry_folder, std::strerror(errno)));
}

std::vector<std::string> CacheRoot::compilers() const {
  std::vector<std::string> found;
  const Result<std::string> text = read_file(abi_folder_ + "/compilers");
  if (!text) return found;
  for (std::string_view rest = *text; !rest.empty() && found.size() < kMaxCompilers;) {
    // From the end: the last whole line.
    const size_t end = rest.rfind('\n');
    if (end == std::string_view::npos) break;
    const size_t before = rest.substr(0, end).rfind('\n');
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view line = rest.substr(begin, end - begin);
    rest = rest.substr(0, begin);
    if (!line.empty() && std::find(found.begin(), found.end(), line) == found.end()) found.emplace_back(line);
  }
  return found;
}

void CacheRoot::record_compiler(std::string_view identity) const {
  const std::vector<std::string> known = compilers();
  if (std::find(known.begin(), known.end(), identity) != known.end()) return;
  const ScopedFd file(
      ::open((abi_folder_ + "/compilers").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return;
  // One write. A line that another process, or a full disk, cut short names no compiler; the newline in front ends it.
  const std::string line = fmt::format("\n{}\n", identity);
  if (::write(file.get(), line.data(), line.size()) < 0) return;
}

bool CacheRoot::set_aside(const std::string& entry_folder) const {
  const std::string aside = abi_folder_ + "/aside";
  if (!make_folders(aside).ok()) return false;
  Result<std::string> place = make_unique_folder(aside, "");
  if (!place) return false;
  const std::string target = *place + entry_folder.substr(entry_folder.rfind('/'));
  return std::rename(entry_folder.c_str(), target.c_str()) == 0 || errno == ENOENT;
}

void CacheRoot::remove(const std::string& folder) const {
  Result<std::string> place = make_build_folder();
  if (!place) return;
  std::rename(folder.c_str(), (*place + "/removed").c_str());
  remove_tree(*place);
}

std::vector<std::string> CacheRoot::leftovers() const {
  std::vector<std::string> found;
  for (const fs::path& damaged : children(abi_folder_ + "/aside")) found.push_back(damaged.string());
  const auto now = fs::file_time_type::clock::now();
  for (const fs::path& build : children(abi_folder_ + "/building")) {
    std::error_code error;
    const auto written = fs::last_write_time(build, error);
    // A clock that was set back leaves times in the future: as wrong as those long ago.
    if (!error && (now - written > kStaleBuild || written - now > kStaleBuild)) found.push_back(build.string());
  }
  return found;
}

std::vector<std::string> CacheRoot::other_abi_folders() const {
  std::vector<std::string> found;
  for (const fs::path& folder : children(path_)) {
    const std::string name = folder.filename().string();
    const bool abi =
        name.size() > 3 && name.substr(0, 3) == "abi" && name.find_first_not_of("0123456789", 3) == std::string::npos;
    if (abi && folder.string() != abi_folder_) found.push_back(folder.string());
  }
  return found;
}

CacheRoot::Lock::~Lock() {
  if (file_) flock(file_.get(), LOCK_UN);
}

CacheRoot::Lock CacheRoot::lock(const Digest& digest, double seconds, const std::function<bool()>& stop) const {
  using Clock = std::chrono::steady_clock;
  const std::string folder = abi_folder_ + "/locks";
  if (!make_folders(folder).ok()) return Lock();
  // 4096 files at most. Two digests that share one only wait for each other.
  const std::string path = folder + "/" + digest.hex().substr(0, 3);
  ScopedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return Lock();
  const auto end = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  for (auto nap = std::chrono::milliseconds(2);; nap = std::min(2 * nap, std::chrono::milliseconds(50))) {
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return Lock(std::move(file));
    if (errno != EWOULDBLOCK && errno != EINTR) return Lock();
    if (stop()) return Lock();
    if (Clock::now() >= end) return Lock(ScopedFd(), /*timed_out=*/true);
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace tilewright
