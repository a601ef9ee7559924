// SPDX-License-Identifier: MIT
#include "jit/cache/cache_root.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "jit/cache/cache_entry.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// No build lasts this long: what is older was left by a process that was killed.
constexpr auto kStaleBuild = std::chrono::hours(24);

Status refuse(const std::string& path, std::string_view reason) {
  return Status(StatusCode::kUnsupported, fmt::format("code cache '{}' is not used: {}", path, reason));
}

// Names in a folder; none when it cannot be read.
std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) found.push_back(*it);
  return found;
}

}  // namespace

CacheRoot::CacheRoot(std::string path, bool writable)
    : path_(std::move(path)), abi_folder_(fmt::format("{}/abi{}", path_, kKernelAbi)), writable_(writable) {}

Result<CacheRoot> CacheRoot::open(const std::string& given, Use use) {
  std::error_code error;
  const std::string path = fs::absolute(given, error).lexically_normal().string();
  if (given.empty() || error) return refuse(given, "it names no folder");
  if (use == Use::kReadWrite) {
    if (Status made = make_folders(path); !made) return refuse(path, made.message());
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return refuse(path, std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return refuse(path, "it is not a folder");
  const uid_t user = geteuid();
  if (info.st_uid != user && !(use == Use::kReadOnly && info.st_uid == 0)) {
    return refuse(path, fmt::format("it belongs to user {}, this process is user {}; code from it would be run as "
                                    "this user",
                                    info.st_uid, user));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse(path, fmt::format("others may write to it (mode {:o}); code from it would be run as this user; "
                                    "allowed: no write permission for group and others (chmod go-w)",
                                    static_cast<unsigned>(info.st_mode & 07777)));
  }
  const bool writable = use == Use::kReadWrite && faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  return CacheRoot(path, writable);
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
  if (std::rename(build_folder.c_str(), entry_folder.c_str()) == 0) {
    sync_path(parent);
    return true;
  }
  if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) return false;
  return Status(StatusCode::kIoError, fmt::format("cannot publish '{}': {}", entry_folder, std::strerror(errno)));
}

bool CacheRoot::set_aside(const std::string& entry_folder) const {
  const std::string aside = abi_folder_ + "/aside";
  if (!make_folders(aside).ok()) return false;
  Result<std::string> place = make_unique_folder(aside, "");
  if (!place) return false;
  const std::string target = *place + entry_folder.substr(entry_folder.rfind('/'));
  return std::rename(entry_folder.c_str(), target.c_str()) == 0 || errno == ENOENT;
}

void CacheRoot::remove_entry(const std::string& entry_folder) const {
  Result<std::string> place = make_build_folder();
  if (!place) return;
  std::rename(entry_folder.c_str(), (*place + "/removed").c_str());
  remove_tree(*place);
}

void CacheRoot::remove_leftovers() const {
  remove_tree(abi_folder_ + "/aside");
  const auto now = fs::file_time_type::clock::now();
  for (const fs::path& build : children(abi_folder_ + "/building")) {
    std::error_code error;
    const auto written = fs::last_write_time(build, error);
    if (!error && now - written > kStaleBuild) remove_tree(build.string());
  }
}

ScopedFd CacheRoot::lock(const Digest& digest, double seconds, const std::function<bool()>& stop) const {
  using Clock = std::chrono::steady_clock;
  const std::string folder = abi_folder_ + "/locks";
  if (!make_folders(folder).ok()) return ScopedFd();
  // 4096 files at most. Two digests that share one only wait for each other.
  const std::string path = folder + "/" + digest.hex().substr(0, 3);
  ScopedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return ScopedFd();
  const auto end = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  for (auto nap = std::chrono::milliseconds(2);; nap = std::min(2 * nap, std::chrono::milliseconds(50))) {
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
    if (errno != EWOULDBLOCK && errno != EINTR) return ScopedFd();
    if (Clock::now() >= end || stop()) return ScopedFd();
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace tilewright
