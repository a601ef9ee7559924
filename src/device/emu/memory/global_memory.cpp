// SPDX-License-Identifier: MIT
#include "device/emu/memory/global_memory.hpp"

#include <atomic>

namespace tilewright::emu {

void GlobalMemory::Buffer::mark_written(uintptr_t address, size_t bytes) const {
  if (!written) return;
  uint8_t* marks = written.get() + (address - begin);
  for (size_t i = 0; i < bytes; ++i) std::atomic_ref<uint8_t>(marks[i]).store(1, std::memory_order_relaxed);
}

bool GlobalMemory::Buffer::is_written(uintptr_t address, size_t bytes) const {
  if (!written) return true;
  uint8_t* marks = written.get() + (address - begin);
  uint8_t all = 1;
  for (size_t i = 0; i < bytes; ++i) all &= std::atomic_ref<uint8_t>(marks[i]).load(std::memory_order_relaxed);
  return all != 0;
}

void GlobalMemory::add(std::string name, const void* address, size_t bytes, bool initialised) {
  Buffer buffer;
  buffer.begin = reinterpret_cast<uintptr_t>(address);
  buffer.end = buffer.begin + bytes;
  buffer.name = std::move(name);
  if (!initialised) buffer.written = std::make_unique<uint8_t[]>(bytes);
  const uintptr_t begin = buffer.begin;
  buffers_[begin] = std::move(buffer);
}

void GlobalMemory::remove(const void* address) { buffers_.erase(reinterpret_cast<uintptr_t>(address)); }

void GlobalMemory::set_initialised(const void* address, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address), end = begin + bytes;
  auto at = buffers_.upper_bound(begin);
  if (at != buffers_.begin()) --at;
  for (; at != buffers_.end() && at->first < end; ++at) {
    const Buffer& buffer = at->second;
    const uintptr_t first = std::max(begin, buffer.begin), last = std::min(end, buffer.end);
    if (first < last) buffer.mark_written(first, last - first);
  }
}

void GlobalMemory::forget(const void* address) {
  const auto found = buffers_.find(reinterpret_cast<uintptr_t>(address));
  if (found == buffers_.end()) return;
  Buffer& buffer = found->second;
  buffer.written = std::make_unique<uint8_t[]>(buffer.end - buffer.begin);
}

const GlobalMemory::Buffer* GlobalMemory::find(uintptr_t address) const {
  auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) return nullptr;
  const Buffer& buffer = std::prev(after)->second;
  return address < buffer.end ? &buffer : nullptr;
}

const GlobalMemory::Buffer* GlobalMemory::nearest(uintptr_t address) const {
  if (buffers_.empty()) return nullptr;
  auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) return &after->second;
  const Buffer& before = std::prev(after)->second;
  if (after == buffers_.end() || address < before.end) return &before;
  return address - before.end <= after->second.begin - address ? &before : &after->second;
}

}  // namespace tilewright::emu
