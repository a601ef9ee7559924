// SPDX-License-Identifier: MIT
#include "device/emu/memory/global_memory.hpp"

#include <algorithm>
#include <atomic>

namespace tilewright::emu {

bool GlobalMemory::Buffer::mark_written(uintptr_t address, size_t bytes, Mark mark) const {
  if (mark != kShared) std::atomic_ref<bool>(fresh).store(true, std::memory_order_relaxed);
  Mark* at = marks.get() + (address - begin);
  bool alone = true;
  for (size_t i = 0; i < bytes; ++i) {
    const std::atomic_ref<Mark> byte(at[i]);
    const Mark before = byte.load(std::memory_order_relaxed);
    alone &= before <= kShared || before == mark;
    byte.store(mark, std::memory_order_relaxed);
  }
  return alone || mark == kShared;
}

bool GlobalMemory::Buffer::is_written(uintptr_t address, size_t bytes) const {
  Mark* at = marks.get() + (address - begin);
  bool all = true;
  for (size_t i = 0; i < bytes; ++i) all &= std::atomic_ref<Mark>(at[i]).load(std::memory_order_relaxed) != kNothing;
  return all;
}

void GlobalMemory::begin_launch() const {
  for (const auto& [begin, buffer] : buffers_) {
    if (!buffer.fresh) continue;
    Mark* const last = buffer.marks.get() + (buffer.end - buffer.begin);
    for (Mark* mark = buffer.marks.get(); mark != last; ++mark) *mark = std::min(*mark, kShared);
    buffer.fresh = false;
  }
}

void GlobalMemory::add(std::string name, const void* address, size_t bytes, bool initialised) {
  Buffer buffer;
  buffer.begin = reinterpret_cast<uintptr_t>(address);
  buffer.end = buffer.begin + bytes;
  buffer.name = std::move(name);
  buffer.marks = std::make_unique<Mark[]>(bytes);
  std::fill_n(buffer.marks.get(), bytes, initialised ? kShared : kNothing);
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
    if (first < last) buffer.mark_written(first, last - first, kShared);
  }
}

void GlobalMemory::forget(const void* address) {
  const auto found = buffers_.find(reinterpret_cast<uintptr_t>(address));
  if (found == buffers_.end()) return;
  Buffer& buffer = found->second;
  std::fill_n(buffer.marks.get(), buffer.end - buffer.begin, kNothing);
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
