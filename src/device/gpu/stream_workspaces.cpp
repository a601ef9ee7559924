// SPDX-License-Identifier: MIT
#include "device/gpu/stream_workspaces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace tilewright::gpu {
namespace {

constexpr int64_t kSmallestBlock = int64_t{2} << 20;       // the libraries' own granularity
void* const kLegacyStream = reinterpret_cast<void*>(0x1);  // CU_STREAM_LEGACY, hipStreamLegacy: null by another name

}  // namespace

StreamWorkspaces::~StreamWorkspaces() {
  const DeviceScope scope(runtime_);
  const auto free = [&](const Stream& stream) {
    for (void* const block : stream.blocks) runtime_.functions().free(block);
    for (void* const block : stream.zeros) runtime_.functions().free(block);
  };
  free(legacy_);
  for (const Streams* streams : {&streams_, &capturing_}) {
    for (const auto& [id, stream] : *streams) free(*stream);
  }
}

template <class Body>
Status StreamWorkspaces::on_device(const char* what, const Body& body) const {
  const DeviceScope scope(runtime_);
  if (scope.code() == kSuccess) return body();
  return runtime_.check(scope.code(), fmt::format("{}: {}", runtime_.name(), what));
}

// The library is asked nothing about the default stream, which most calls run on.
Result<StreamWorkspaces::Stream*> StreamWorkspaces::find(void* stream) {
  if (stream == nullptr || stream == kLegacyStream) return &legacy_;
  return ask_library(stream);
}

Result<StreamWorkspaces::Stream*> StreamWorkspaces::ask_library(void* stream) {
  const Functions& f = runtime_.functions();
  const DeviceScope scope(runtime_);
  // Asking a stream that captures for its id would spoil the capture. What it captures has blocks of its own, by the
  // stream's handle.
  CaptureStatus status = CaptureStatus::kNone;
  unsigned long long id = reinterpret_cast<uintptr_t>(stream);
  Code code = scope.code();
  if (code == kSuccess) code = f.capture_status(stream, &status);
  const bool captures = status != CaptureStatus::kNone;
  if (code == kSuccess && !captures) code = f.stream_id(stream, &id);
  if (code != kSuccess) return runtime_.check(code, fmt::format("{}: argument 'stream'", runtime_.name()));
  return known(captures, id);
}

// What a thread asked for last, it asks for again. Streams here live as long as this.
StreamWorkspaces::Stream* StreamWorkspaces::known(bool captures, unsigned long long id) {
  struct Last {
    unsigned long long owner = 0, id = 0;
    bool captures = false;
    Stream* stream = nullptr;
  };
  thread_local Last last;
  if (last.owner == serial_ && last.id == id && last.captures == captures) return last.stream;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Stream>& stream = (captures ? capturing_ : streams_)[id];
  if (stream == nullptr) stream = std::make_unique<Stream>();
  last = {serial_, id, captures, stream.get()};
  return stream.get();
}

unsigned long long StreamWorkspaces::next_serial() {
  static std::atomic<unsigned long long> serial{0};
  return ++serial;
}

Result<Workspace> StreamWorkspaces::get(int64_t bytes, void* stream) {
  const Result<Stream*> found = find(stream);
  if (!found) return found.status();
  Stream& own = **found;
  Workspace workspace;
  workspace.in_use = std::unique_lock(own.in_use);
  if (own.bytes < bytes) {
    if (Status s = on_device("workspace", [&] { return grow(own, bytes); }); !s) return s;
  }
  workspace.data = own.blocks.back();
  return workspace;
}

Result<void*> StreamWorkspaces::zeros(int64_t bytes, void* stream) {
  const Result<Stream*> found = find(stream);
  if (!found) return found.status();
  const std::lock_guard lock(mutex_);
  if ((*found)->zero_bytes < bytes || (*found)->zeros.empty()) {
    if (Status s = on_device("zeros", [&] { return grow_zeros(**found, bytes); }); !s) return s;
  }
  return (*found)->zeros.back();
}

// Zeroed on a stream of their own: the caller's may be capturing.
Status StreamWorkspaces::grow_zeros(Stream& stream, int64_t bytes) {
  const Functions& f = runtime_.functions();
  const int64_t size = std::max({kSmallestBlock, bytes, 2 * stream.zero_bytes});
  const RelaxedCapture relaxed(f);
  void* block = nullptr;
  gpu::Stream own = nullptr;
  Code code = f.allocate(&block, static_cast<size_t>(size));
  if (code == kSuccess) code = f.create_stream(&own, kStreamNonBlocking);
  if (code == kSuccess) code = f.fill(block, 0, static_cast<size_t>(size), own);
  if (code == kSuccess) code = f.synchronize_stream(own);
  if (own != nullptr) f.destroy_stream(own);
  if (code != kSuccess && block != nullptr) f.free(block);
  if (Status s = runtime_.check(code, fmt::format("{}: {} bytes of zeros", runtime_.name(), size)); !s) return s;
  stream.zeros.push_back(block);
  stream.zero_bytes = size;
  return {};
}

Status StreamWorkspaces::grow(Stream& stream, int64_t bytes) {
  const int64_t size = std::max({kSmallestBlock, bytes, 2 * stream.bytes});
  const RelaxedCapture relaxed(runtime_.functions());
  void* block = nullptr;
  if (Status s = runtime_.check(runtime_.functions().allocate(&block, static_cast<size_t>(size)),
                                fmt::format("{}: {} bytes of workspace", runtime_.name(), size));
      !s) {
    return s;
  }
  stream.blocks.push_back(block);
  stream.bytes = size;
  return {};
}

}  // namespace tilewright::gpu
