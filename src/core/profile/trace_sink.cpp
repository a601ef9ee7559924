// SPDX-License-Identifier: MIT
// Ranges as a file in Chrome's trace format, which chrome://tracing and Perfetto show: an array of complete events. The
// file is whole after each write, so that a program that is killed leaves one that parses.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/log.hpp"
#include "core/profile/profile_sink.hpp"

namespace tilewright {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int64_t kFlushNs = 1'000'000'000;            // what a killed program may lose
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;  // then a trace is of no use in a viewer
constexpr std::string_view kEnd = "\n]\n";

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

// The ranges that are open on this thread.
struct Open {
  std::string name, detail;
  int64_t begin;
};
std::vector<Open>& open_ranges() {
  thread_local std::vector<Open> ranges;
  return ranges;
}

class TraceSink final : public ProfileSink {
 public:
  // One a process: the environment names it, and the hooks below know it by its address.
  explicit TraceSink(std::string path) : path_(std::move(path)) {
    only = this;
    std::atexit([] { only->flush(); });
    pthread_atfork([] { only->mutex_.lock(); }, [] { only->mutex_.unlock(); }, [] { only->forget_parent(); });
  }

  void push(const char* name, std::string_view detail) override {
    open_ranges().push_back({name, std::string(detail), now_ns()});
  }

  void pop() override {
    const int64_t end = now_ns();
    std::vector<Open>& ranges = open_ranges();
    if (ranges.empty()) return;
    const Open& range = ranges.back();
    std::string event =
        fmt::format(R"({{"name":{},"cat":"tilewright","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{})",
                    json_string(range.name), 1e-3 * static_cast<double>(range.begin),
                    1e-3 * static_cast<double>(end - range.begin), getpid(), gettid());
    if (!range.detail.empty()) event += R"(,"args":{"detail":)" + json_string(range.detail) + "}";
    event += "}";
    ranges.pop_back();
    const std::lock_guard lock(mutex_);
    buffer_ += bytes_ == 0 && buffer_.empty() ? "[\n" : ",\n";
    buffer_ += event;
    if (buffer_.size() >= kBufferBytes || end - written_at_ >= kFlushNs) write(end);
  }

 private:
  void flush() {
    const std::lock_guard lock(mutex_);
    write(now_ns());
  }

  void write(int64_t now) {
    written_at_ = now;
    if (buffer_.empty() || failed_) return buffer_.clear();
    if (file_ < 0 && !open_file()) return;
    if (bytes_ + static_cast<int64_t>(buffer_.size()) > kMaxFileBytes) {
      return fail(fmt::format("'{}' has {} MiB, which are enough: the trace ends here", path_, bytes_ >> 20));
    }
    buffer_ += kEnd;
    int64_t at = bytes_;  // over the last kEnd
    for (std::string_view rest = buffer_; !rest.empty();) {
      const ssize_t written = ::pwrite(file_, rest.data(), rest.size(), at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return fail(fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
      rest.remove_prefix(static_cast<size_t>(written));
      at += written;
    }
    bytes_ = at - static_cast<int64_t>(kEnd.size());
    buffer_.clear();
  }

  // Another process that is still writing keeps its file.
  bool open_file() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      if (file_ < 0) break;
      if (attempt == 1 || ::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        if (::ftruncate(file_, 0) == 0) return true;
        break;
      }
      ::close(file_);
      path_ += fmt::format(".{}", getpid());
    }
    fail(fmt::format("cannot open '{}': {}", path_, std::strerror(errno)));
    return false;
  }

  void fail(const std::string& why) {
    failed_ = true;
    buffer_.clear();
    log(LogLevel::kWarn, "profile", "TILEWRIGHT_PROFILE: trace: {}", why);
  }

  // In a forked child, with the mutex held: what the parent has not written is the parent's.
  void forget_parent() {
    if (file_ >= 0) ::close(file_);
    file_ = -1, bytes_ = 0;
    buffer_.clear();
    path_ += fmt::format(".{}", getpid());
    mutex_.unlock();
  }

  static inline TraceSink* only = nullptr;
  std::mutex mutex_;
  std::string path_, buffer_;
  int64_t bytes_ = 0, written_at_ = 0;  // bytes without kEnd
  int file_ = -1;
  bool failed_ = false;
};

}  // namespace

Result<std::unique_ptr<ProfileSink>> make_trace_sink(const std::string& path) {
  return std::unique_ptr<ProfileSink>(
      std::make_unique<TraceSink>(path.empty() ? fmt::format("tilewright-trace.{}.json", getpid()) : path));
}

}  // namespace tilewright
