// SPDX-License-Identifier: MIT
#include "tuning/store/table_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <thread>

#include "core/log.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Status system_error(const std::string& what) {
  return Status(StatusCode::kIoError, fmt::format("tuned table: {}: {}", what, std::strerror(errno)));
}

// The lock file stays: deleting one breaks those who wait for it. A file system without locks is no reason to fail,
// because publishing is a rename.
Result<ScopedFd> lock_table(const std::string& path, double seconds) {
  using Clock = std::chrono::steady_clock;
  const std::string name = path + ".lock";
  ScopedFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return system_error("cannot open " + name);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (Clock::now() >= end) {
      return Status(StatusCode::kTimeout,
                    fmt::format("tuned table: {} is locked by another process for more than {} s", name, seconds));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return file;
}

// The table's lines without those whose key is in `replaced`. An earlier version's rows get this version's columns.
std::string kept_lines(std::string_view text, const std::set<std::string>& replaced) {
  std::string header, kept;
  const bool current = text.starts_with(tuned_csv_header());
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (header.empty() && !line.empty() && line.front() != '#') {
      header = line;
      continue;
    }
    if (line == header) continue;
    std::vector<std::string> problems;
    const std::vector<TunedRow> row = parse_tuned_csv(fmt::format("{}\n{}\n", header, line), "", problems);
    if (row.size() == 1 && replaced.contains(tuned_row_key(row[0]))) continue;
    const Result<std::string> printed = row.size() == 1 && !current ? print_tuned_row(row[0]) : std::string(line);
    kept += printed ? *printed : std::string(line);
    kept += '\n';
  }
  return kept;
}

bool has_header(std::string_view text) {
  std::vector<std::string> problems;
  parse_tuned_csv(text, "", problems);
  // Only a wrong header makes a problem that names the header; an empty file has none.
  for (const std::string& problem : problems) {
    if (problem.find("header differs") != std::string::npos) return false;
  }
  return true;
}

Status publish(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  if (Status s = write_file(temporary, text, Durability::kSynced); !s) return s;
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const Status status = system_error("cannot replace " + path);
    std::remove(temporary.c_str());
    return status;
  }
  sync_path(folder_of(path));
  return {};
}

}  // namespace

Status store_tuned_rows(const std::string& path, const std::vector<TunedRow>& rows, double lock_wait_seconds) {
  std::set<std::string> keys;
  std::string added;
  for (const TunedRow& row : rows) {
    Result<std::string> line = print_tuned_row(row);
    if (!line) return line.status();
    keys.insert(tuned_row_key(row));
    added += *line + '\n';
  }
  if (Status s = make_folders(folder_of(path)); !s) return s;
  Result<ScopedFd> lock = lock_table(path, lock_wait_seconds);
  if (!lock) return lock.status();

  Result<std::string> old = read_file(path);
  if (!old && old.status().code() != StatusCode::kNotFound) return old.status();
  std::string kept;
  if (old && has_header(*old)) {
    kept = kept_lines(*old, keys);
  } else if (old) {
    const std::string aside = path + ".old";
    if (std::rename(path.c_str(), aside.c_str()) != 0) return system_error("cannot rename " + path);
    log(LogLevel::kWarn, "tuner", "{} has another version's columns; kept as {}", path, aside);
  }
  return publish(path, tuned_csv_header() + '\n' + kept + added);
}

}  // namespace tilewright
