// SPDX-License-Identifier: MIT
#include "device/cuda/stream_workspaces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "device/cuda/driver/context_scope.hpp"

namespace tilewright::cuda {
namespace {

constexpr int64_t kSmallestBlock = int64_t{2} << 20;       // the driver's own granularity
void* const kLegacyStream = reinterpret_cast<void*>(0x1);  // CU_STREAM_LEGACY, null by another name

}  // namespace

StreamWorkspaces::~StreamWorkspaces() {
  const ContextScope scope(*place_.driver, place_.context);
  const auto free = [&](const Stream& stream) {
    for (const DevicePointer block : stream.blocks) place_.driver->cuMemFree_v2(block);
    for (const DevicePointer block : stream.zeros) place_.driver->cuMemFree_v2(block);
  };
  free(legacy_);
  for (const Streams* streams : {&streams_, &capturing_}) {
    for (const auto& [id, stream] : *streams) free(*stream);
  }
}

template <class Body>
Status StreamWorkspaces::in_context(const char* what, const Body& body) const {
  const ContextScope scope(*place_.driver, place_.context);
  if (scope.result() == CuResult::kSuccess) return body();
  return check(*place_.driver, scope.result(), fmt::format("cuda:{}: {}", place_.index, what));
}

// The driver is asked nothing about the default stream, which most calls run on.
Result<StreamWorkspaces::Stream*> StreamWorkspaces::find(void* stream) {
  if (stream == nullptr || stream == kLegacyStream) return &legacy_;
  return ask_driver(stream);
}

Result<StreamWorkspaces::Stream*> StreamWorkspaces::ask_driver(void* stream) {
  const Driver& d = *place_.driver;
  const ContextScope scope(d, place_.context);
  // Asking a stream that captures for its id would spoil the capture. What it captures has blocks of its own, by the
  // stream's handle.
  CaptureStatus status = CaptureStatus::kNone;
  unsigned long long id = reinterpret_cast<uintptr_t>(stream);
  CuResult result = scope.result();
  if (result == CuResult::kSuccess) result = d.cuStreamIsCapturing(static_cast<CuStream>(stream), &status);
  const bool captures = status != CaptureStatus::kNone;
  if (result == CuResult::kSuccess && !captures) result = d.cuStreamGetId(static_cast<CuStream>(stream), &id);
  if (result != CuResult::kSuccess) return check(d, result, fmt::format("cuda:{}: argument 'stream'", place_.index));
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
    if (Status s = in_context("workspace", [&] { return grow(own, bytes); }); !s) return s;
  }
  workspace.data = own.blocks.back();
  return workspace;
}

Result<void*> StreamWorkspaces::zeros(int64_t bytes, void* stream) {
  const Result<Stream*> found = find(stream);
  if (!found) return found.status();
  const std::lock_guard lock(mutex_);
  if ((*found)->zero_bytes < bytes || (*found)->zeros.empty()) {
    if (Status s = in_context("zeros", [&] { return grow_zeros(**found, bytes); }); !s) return s;
  }
  return (*found)->zeros.back();
}

// Zeroed on a stream of their own: the caller's may be capturing.
Status StreamWorkspaces::grow_zeros(Stream& stream, int64_t bytes) {
  const Driver& d = *place_.driver;
  const int64_t size = std::max({kSmallestBlock, bytes, 2 * stream.zero_bytes});
  const RelaxedCapture relaxed(d);
  DevicePointer block = nullptr;
  CuStream own = nullptr;
  CuResult result = d.cuMemAlloc_v2(&block, static_cast<size_t>(size));
  if (result == CuResult::kSuccess) result = d.cuStreamCreate(&own, kStreamNonBlocking);
  if (result == CuResult::kSuccess) result = d.cuMemsetD8Async(block, 0, static_cast<size_t>(size), own);
  if (result == CuResult::kSuccess) result = d.cuStreamSynchronize(own);
  if (own != nullptr) d.cuStreamDestroy_v2(own);
  if (result != CuResult::kSuccess && block != nullptr) d.cuMemFree_v2(block);
  if (Status s = check(d, result, fmt::format("cuda:{}: {} bytes of zeros", place_.index, size)); !s) return s;
  stream.zeros.push_back(block);
  stream.zero_bytes = size;
  return {};
}

Status StreamWorkspaces::grow(Stream& stream, int64_t bytes) {
  const int64_t size = std::max({kSmallestBlock, bytes, 2 * stream.bytes});
  const RelaxedCapture relaxed(*place_.driver);
  DevicePointer block = nullptr;
  if (Status s = check(*place_.driver, place_.driver->cuMemAlloc_v2(&block, static_cast<size_t>(size)),
                       fmt::format("cuda:{}: {} bytes of workspace", place_.index, size));
      !s) {
    return s;
  }
  stream.blocks.push_back(block);
  stream.bytes = size;
  return {};
}

}  // namespace tilewright::cuda
