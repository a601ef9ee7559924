// SPDX-License-Identifier: MIT
// Files and folders as the code cache needs them: whole files, errors as values, private folders that clean up.
#pragma once

#include <string>
#include <string_view>

#include "tilewright/status.hpp"

namespace tilewright {

// kNotFound when there is no such file, kIoError otherwise; the message names the path and the system's reason.
Result<std::string> read_file(const std::string& path);

enum class Durability { kBuffered, kSynced };  // kSynced: on the disk when the call returns
Status write_file(const std::string& path, std::string_view text, Durability durability = Durability::kBuffered);

// Makes a file's or a folder's content durable; a file system that cannot says nothing.
void sync_path(const std::string& path);

// Creates `path` and its parents, each private to this user (0700). Existing folders are left as they are.
Status make_folders(const std::string& path);

// Creates a fresh folder inside `parent`, private to this user.
Result<std::string> make_unique_folder(const std::string& parent, std::string_view prefix);

bool is_file(const std::string& path);

// Removes a file or a folder with all that is in it; what is not there, or cannot be removed, is left.
void remove_tree(const std::string& path);

// A folder that is removed at the end of its scope.
class ScopedFolder {
 public:
  explicit ScopedFolder(std::string path) : path_(std::move(path)) {}
  ~ScopedFolder() {
    if (!path_.empty()) remove_tree(path_);
  }
  ScopedFolder(const ScopedFolder&) = delete;
  ScopedFolder& operator=(const ScopedFolder&) = delete;
  const std::string& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::string path_;
};

// A descriptor that is closed at the end of its scope.
class ScopedFd {
 public:
  explicit ScopedFd(int fd = -1) : fd_(fd) {}
  ~ScopedFd() { reset(); }
  ScopedFd(ScopedFd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ScopedFd& operator=(ScopedFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.fd_;
      other.fd_ = -1;
    }
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_;
};

}  // namespace tilewright
