// SPDX-License-Identifier: MIT
// The default workspaces of a GPU: one growing block a stream.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/device.hpp"
#include "device/gpu/runtime.hpp"

namespace tilewright::gpu {

// What one stream enqueues runs in order, so one block serves all its calls; a caller holds the block while it enqueues
// the kernels of one call. A block that was outgrown is freed with the device, not before: kernels that are still queued
// and captured graphs name it. Sizes double, so all old blocks together are smaller than the newest one. Graphs captured
// on one stream share its block: replayed at the same time they need workspaces of their own (Exec::workspace).
class StreamWorkspaces {
 public:
  // `runtime` must outlive it.
  explicit StreamWorkspaces(const Runtime& runtime) : runtime_(runtime) {}
  ~StreamWorkspaces();
  StreamWorkspaces(const StreamWorkspaces&) = delete;
  StreamWorkspaces& operator=(const StreamWorkspaces&) = delete;

  Result<Workspace> get(int64_t bytes, void* stream);
  // At least so many zeros, which the stream's kernels leave as they are.
  Result<void*> zeros(int64_t bytes, void* stream);

 private:
  struct Stream {
    std::mutex in_use;
    std::vector<void*> blocks;  // the last one is in use
    int64_t bytes = 0;          // of the last one
    std::vector<void*> zeros;   // blocks; the last one is in use
    int64_t zero_bytes = 0;     // of the last one
  };
  Result<Stream*> find(void* stream);
  Result<Stream*> ask_library(void* stream);
  Stream* known(bool captures, unsigned long long id);
  static unsigned long long next_serial();
  Status grow_zeros(Stream& stream, int64_t bytes);
  Status grow(Stream& stream, int64_t bytes);
  template <class Body>
  Status on_device(const char* what, const Body& body) const;

  const Runtime& runtime_;
  const unsigned long long serial_ = next_serial();  // tells the caches of threads apart
  Stream legacy_;  // of the default stream: it is never captured, and no other stream has its name later
  std::mutex mutex_;
  using Streams = std::unordered_map<unsigned long long, std::unique_ptr<Stream>>;
  Streams streams_;    // by the library's id, which never comes again
  Streams capturing_;  // by handle
};

}  // namespace tilewright::gpu
