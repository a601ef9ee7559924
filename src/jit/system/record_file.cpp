// SPDX-License-Identifier: MIT
#include "jit/system/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/digest.hpp"
#include "core/log.hpp"

namespace tilewright {
namespace {

constexpr size_t kChecksumDigits = 8;

std::string checksum(std::string_view text) { return digest_of(text).hex().substr(0, kChecksumDigits); }

}  // namespace

RecordFile::RecordFile(std::string path, FileAccess access, const std::function<void(const Record&)>& read)
    : path_(std::move(path)) {
  const bool append = access == FileAccess::kAppend;
  if (path_.empty()) {
    if (!append) return;
    problem_ = Status(StatusCode::kIoError, "no home directory and no TILEWRIGHT_DATA_DIR");
    return;
  }
  const size_t slash = path_.rfind('/');
  if (append && slash != std::string::npos && slash > 0) problem_ = make_folders(path_.substr(0, slash));
  const Result<std::string> whole = read_file(path_);
  if (whole) {
    torn_ = !whole->empty() && whole->back() != '\n';
    int damaged = 0;
    for (std::string_view text = *whole; !text.empty();) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      if (line.empty()) continue;
      const std::string_view body = line.substr(std::min(line.size(), kChecksumDigits + 1));
      Result<Record> record = Record::parse(body);
      if (line.size() <= kChecksumDigits + 1 || line.substr(0, kChecksumDigits) != checksum(body) || !record) {
        ++damaged;
      } else {
        read(*record);
      }
    }
    if (damaged > 0) log(LogLevel::kWarn, "tuner", "{}: {} damaged lines skipped", path_, damaged);
  }
  if (!append || !problem_.ok()) return;
  file_ = ScopedFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file_) problem_ = Status(StatusCode::kIoError, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

void RecordFile::append(const Record& record) {
  if (!file_) return;
  const std::string body = record.line();
  const std::string line = fmt::format("{}{} {}\n", torn_ ? "\n" : "", checksum(body), body);
  torn_ = false;
  ssize_t written;
  do {
    written = ::write(file_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) {
    problem_ = Status(StatusCode::kIoError, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
    torn_ = written > 0;
    return;
  }
  ::fsync(file_.get());
}

}  // namespace tilewright
