// SPDX-License-Identifier: MIT
#include "device/cpu/pages.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace tilewright {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 47;  // the address space of x86-64

int64_t mapped_bytes(int64_t bytes) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t unit = bytes >= kHugePage ? kHugePage : page;
  return (std::max<int64_t>(bytes, 1) + unit - 1) / unit * unit;
}

}  // namespace

Result<void*> map_pages(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxBytes) {
    return Status(StatusCode::kInvalidArgument, fmt::format("allocate: bytes = {}, allowed: 0 .. 2^47", bytes));
  }
  const int64_t size = mapped_bytes(bytes);
  const bool huge = bytes >= kHugePage;
  // A mapping starts at any page: for a 2 MiB boundary map more and cut off both ends.
  const int64_t slack = huge ? kHugePage : 0;
  void* raw = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    return Status(StatusCode::kOutOfMemory,
                  fmt::format("allocate: the system has no {} bytes: {}", size, std::strerror(errno)));
  }
  if (!huge) return raw;
  char* const begin = static_cast<char*>(raw);
  char* const data = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (data != begin) munmap(begin, data - begin);
  if (const int64_t tail = slack - (data - begin); tail != 0) munmap(data + size, tail);
  madvise(data, size, MADV_HUGEPAGE);  // advice: without it, only slower
  return static_cast<void*>(data);
}

void unmap_pages(void* data, int64_t bytes) {
  if (data != nullptr) munmap(data, mapped_bytes(bytes));
}

namespace {

std::atomic<uint64_t> next_serial{1};

// The last answer that this thread got: a repeated call takes no lock.
struct LastWorkspace {
  uint64_t serial = 0;
  void* data = nullptr;
  int64_t bytes = 0;
};
thread_local LastWorkspace last_workspace;

}  // namespace

ThreadWorkspaces::ThreadWorkspaces() : serial_(next_serial.fetch_add(1)) {}

ThreadWorkspaces::~ThreadWorkspaces() {
  for (const auto& [thread, blocks] : blocks_) {
    for (const Block& block : blocks) unmap_pages(block.data, block.bytes);
  }
}

Result<void*> ThreadWorkspaces::get(int64_t bytes) {
  LastWorkspace& last = last_workspace;
  if (last.serial == serial_ && bytes >= 0 && bytes <= last.bytes) return last.data;
  const std::lock_guard lock(mutex_);
  std::vector<Block>& blocks = blocks_[std::this_thread::get_id()];
  if (blocks.empty() || bytes < 0 || bytes > blocks.back().bytes) {
    int64_t size = bytes;
    if (bytes >= 0 && !blocks.empty()) size = std::max(bytes, 2 * blocks.back().bytes);
    Result<void*> data = map_pages(size);
    if (!data && size != bytes) data = map_pages(size = bytes);  // no room to double
    if (!data) return data.status();
    blocks.push_back({*data, mapped_bytes(size)});
  }
  last = {serial_, blocks.back().data, blocks.back().bytes};
  return last.data;
}

}  // namespace tilewright
