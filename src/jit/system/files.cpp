// SPDX-License-Identifier: MIT
#include "jit/system/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tilewright {
namespace {

Status io_error(std::string_view what, const std::string& path, int error) {
  return Status(error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
                fmt::format("cannot {} '{}': {}", what, path, std::strerror(error)));
}

// A write past RLIMIT_FSIZE ends the program by a signal unless that is blocked. Here it is, for this thread, and what
// came meanwhile is taken away again: the write then fails like one on a full disk.
class FileSizeSignalBlocked {
 public:
  FileSizeSignalBlocked() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlocked() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalBlocked(const FileSizeSignalBlocked&) = delete;
  FileSizeSignalBlocked& operator=(const FileSizeSignalBlocked&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_;
};

}  // namespace

void ScopedFd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Result<std::string> read_file(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return io_error("open", path, errno);
  struct stat info;
  std::string text;
  if (fstat(file.get(), &info) == 0 && info.st_size > 0) text.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(file.get(), buffer, sizeof(buffer));
    if (got == 0) return text;
    if (got > 0) {
      text.append(buffer, static_cast<size_t>(got));
    } else if (errno != EINTR) {
      return io_error("read", path, errno);
    }
  }
}

Status write_file(const std::string& path, std::string_view text, Durability durability) {
  const ScopedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return io_error("create", path, errno);
  const FileSizeSignalBlocked blocked;
  while (!text.empty()) {
    const ssize_t put = write(file.get(), text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<size_t>(put));
    } else if (errno != EINTR) {
      return io_error("write", path, errno);
    }
  }
  if (durability == Durability::kSynced && fsync(file.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    return io_error("write", path, errno);
  }
  return {};
}

void sync_path(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) fsync(file.get());
}

Status make_folders(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string folder = path.substr(0, end);
    if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) continue;
    // Some parents answer EACCES or EROFS to mkdir although they are there.
    const int error = errno;
    struct stat info;
    if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return io_error("create folder", folder, error);
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return io_error("create folder", path, errno);
  if (!S_ISDIR(info.st_mode)) return io_error("create folder", path, ENOTDIR);
  return {};
}

Result<std::string> make_unique_folder(const std::string& parent, std::string_view prefix) {
  std::string path = fmt::format("{}/{}XXXXXX", parent, prefix);
  if (mkdtemp(path.data()) == nullptr) return io_error("create a folder in", parent, errno);
  return path;
}

bool is_file(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace tilewright
