// SPDX-License-Identifier: MIT
// Memory straight from the system: page-aligned, huge pages where they pay, and the per-thread workspaces made of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

// Zeroed, aligned to a page; from 2 MiB up, aligned to 2 MiB with huge pages advised. Zero bytes give one page.
Result<void*> map_pages(int64_t bytes);
// Gives back what map_pages(bytes) returned; null is fine.
void unmap_pages(void* data, int64_t bytes);

// One growing block a calling thread. A block that was outgrown stays mapped until this object is destroyed, because an
// earlier call (or a captured graph) may still name it; sizes double, so all old blocks together are smaller than the
// newest one. A thread that ends leaves its blocks to the next thread of the same id.
class ThreadWorkspaces {
 public:
  ThreadWorkspaces();
  ~ThreadWorkspaces();
  ThreadWorkspaces(const ThreadWorkspaces&) = delete;
  ThreadWorkspaces& operator=(const ThreadWorkspaces&) = delete;

  // At least `bytes`, aligned to a page. The same block as before while it is large enough.
  Result<void*> get(int64_t bytes);

 private:
  struct Block {
    void* data;
    int64_t bytes;
  };
  const uint64_t serial_;  // tells this object apart from one that had its address before
  std::mutex mutex_;
  std::unordered_map<std::thread::id, std::vector<Block>> blocks_;
};

}  // namespace tilewright
