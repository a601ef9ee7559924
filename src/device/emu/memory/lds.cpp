// SPDX-License-Identifier: MIT
#include "device/emu/memory/lds.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tilewright::emu {
namespace {

// Written at some time, by nobody in particular.
constexpr Stamp kLongAgo = 1;

}  // namespace

Lds::Lds(size_t capacity, uint32_t wave_size)
    : capacity_(capacity), wave_size_(wave_size), writers_(capacity), readers_(capacity) {
  // Nothing else lies within reach of it: a pointer near it is meant for it.
  void* mapping = mmap(nullptr, capacity + 2 * kReach, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<unsigned char*>(mapping);
  data_ = mapping_ + kReach;
  if (mprotect(data_, (capacity + 4095) & ~size_t{4095}, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping_, capacity + 2 * kReach);  // no destructor follows
    throw std::bad_alloc();
  }
}

Lds::~Lds() { munmap(mapping_, capacity_ + 2 * kReach); }

void Lds::start(size_t bytes) {
  bytes_ = std::min(bytes, capacity_);
  std::memset(data_, 0xff, bytes_);  // NaN in every floating type
  std::fill_n(writers_.begin(), bytes_, Stamp{0});
  std::fill_n(readers_.begin(), bytes_, Stamp{0});
  stretch_ = 1;
  since_barrier_ = 1u << kWorkItemBits;
}

// Numbers start again. Races with what came before are not seen: once in two million meetings of waves.
void Lds::forget_numbers() {
  for (size_t i = 0; i < bytes_; ++i) {
    if (writers_[i] != 0 && writers_[i] != kInFlight) writers_[i] = kLongAgo;
    readers_[i] = 0;
  }
  stretch_ = 1;
  since_barrier_ = 1u << kWorkItemBits;
}

uint32_t Lds::next_stretch() {
  if (stretch_ + 1 >= kMaxStretch) forget_numbers();
  return ++stretch_;
}

void Lds::barrier() { since_barrier_ = next_stretch() << kWorkItemBits; }

// Another work-item since the last barrier: of another wave, or of this one before its lanes met again.
bool Lds::conflicts(Stamp stamp, Actor actor) const {
  if (stamp < since_barrier_) return false;
  const uint32_t who = stamp & kWorkItemMask;
  if (who == actor.work_item) return false;
  if (who == kSeveralWaves) return true;
  const uint32_t wave = who >= kSeveralLanes ? who - kSeveralLanes : who / wave_size_;
  return wave != actor.wave || stamp >> kWorkItemBits == actor.stretch;
}

Lds::Result Lds::first_fault(uint32_t offset, size_t bytes, Actor actor, bool writes) const {
  for (size_t i = 0; i < bytes; ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    const Stamp writer = writers_[at];
    if (writer == kInFlight) return {Finding::kMissingWait, at, 0, true};
    if (!writes && writer == 0) return {Finding::kUninitialised, at, 0, false};
    if (conflicts(writer, actor)) return {Finding::kRace, at, writer & kWorkItemMask, true};
    if (writes && conflicts(readers_[at], actor)) return {Finding::kRace, at, readers_[at] & kWorkItemMask, false};
  }
  return {};
}

Lds::Result Lds::read(uint32_t offset, size_t bytes, Actor actor) {
  if (reads_well(offset, bytes, actor)) return {};
  const Result result = first_fault(offset, bytes, actor, false);
  Stamp* readers = readers_.data() + offset;
  for (size_t i = 0; i < bytes; ++i) readers[i] = merged_reader(readers[i], actor);
  return result;
}

Lds::Result Lds::write(uint32_t offset, size_t bytes, Actor actor) {
  if (writes_well(offset, bytes, actor)) return {};
  const Result result = first_fault(offset, bytes, actor, true);
  std::fill_n(writers_.begin() + offset, bytes, actor.stamp());
  return result;
}

// Atomics of several lanes may meet. What they race with is not looked for.
Lds::Result Lds::atomic(uint32_t offset, size_t bytes, Actor) {
  Result result;
  for (size_t i = 0; i < bytes && result.finding == Finding::kNone; ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    if (writers_[at] == kInFlight) result = {Finding::kMissingWait, at, 0, true};
    if (writers_[at] == 0) result = {Finding::kUninitialised, at, 0, false};
  }
  return result;
}

Lds::Result Lds::begin_copy(uint32_t offset, size_t bytes, Actor actor) {
  const Result result = write(offset, bytes, actor);
  std::fill_n(writers_.begin() + offset, bytes, kInFlight);
  return result;
}

void Lds::land(uint32_t offset, const void* from, size_t bytes, Actor actor) {
  std::memcpy(data_ + offset, from, bytes);
  std::fill_n(writers_.begin() + offset, bytes, actor.stamp());
}

}  // namespace tilewright::emu
