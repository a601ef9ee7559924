// SPDX-License-Identifier: MIT
// The LDS of the workgroup that a host thread runs: its bytes, poisoned, and who touched each of them last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::emu {

// When and by whom: the number of a stretch of one wave between two points where its lanes met, and a work-item. Zero =
// never. Numbers grow over the whole workgroup, so that those since the last barrier are the largest.
using Stamp = uint32_t;
inline constexpr uint32_t kWorkItemBits = 11, kWorkItemMask = (1u << kWorkItemBits) - 1;
inline constexpr uint32_t kSeveralLanes = 1024;  // + wave
inline constexpr uint32_t kSeveralWaves = kWorkItemMask - 1;
inline constexpr Stamp kInFlight = ~Stamp{0};  // a copy that has not been waited for will write it
inline constexpr uint32_t kMaxStretch = (kInFlight >> kWorkItemBits) - 1;

class Lds {
 public:
  enum class Finding : uint8_t { kNone, kUninitialised, kRace, kMissingWait };
  struct Result {
    Finding finding = Finding::kNone;
    uint32_t offset = 0;  // of the first byte that it is about
    uint32_t other = 0;   // work-item, or one of the constants above
    bool other_wrote = false;
  };
  struct Actor {
    uint32_t work_item, wave, stretch;
    Stamp stamp() const { return stretch << kWorkItemBits | work_item; }
  };

  Lds(size_t capacity, uint32_t wave_size);
  ~Lds();
  Lds(const Lds&) = delete;
  Lds& operator=(const Lds&) = delete;

  unsigned char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Of a pointer at or near the LDS; near enough to be meant for it.
  bool near(uintptr_t address) const { return address - (begin() - kReach) < 2 * kReach + capacity_; }
  uint64_t offset_of(uintptr_t address) const { return address - begin(); }
  bool inside(uintptr_t address, size_t bytes) const {
    return address >= begin() && bytes <= bytes_ && address - begin() <= bytes_ - bytes;
  }

  void start(size_t bytes);  // of a workgroup
  uint32_t next_stretch();
  void barrier();  // what was touched before it cannot race with what comes
  // Most accesses find nothing: these two tell so soon, and leave the others to read() and write().
  bool reads_well(uint32_t offset, size_t bytes, Actor actor);
  bool writes_well(uint32_t offset, size_t bytes, Actor actor);
  Result read(uint32_t offset, size_t bytes, Actor actor);
  Result write(uint32_t offset, size_t bytes, Actor actor);
  Result atomic(uint32_t offset, size_t bytes, Actor actor);
  Result begin_copy(uint32_t offset, size_t bytes, Actor actor);  // will write
  void land(uint32_t offset, const void* from, size_t bytes, Actor actor);

 private:
  static constexpr size_t kReach = size_t{1} << 20;
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data_); }
  bool conflicts(Stamp stamp, Actor actor) const;
  Stamp merged_reader(Stamp stamp, Actor actor) const;
  // By another work-item since the last barrier.
  bool is_foreign(Stamp stamp, Actor actor) const {
    return stamp >= since_barrier_ && (stamp & kWorkItemMask) != actor.work_item;
  }
  Result first_fault(uint32_t offset, size_t bytes, Actor actor, bool writes) const;
  void forget_numbers();

  const size_t capacity_;
  const uint32_t wave_size_;
  unsigned char* mapping_ = nullptr;
  unsigned char* data_ = nullptr;
  size_t bytes_ = 0;
  uint32_t stretch_ = 1;
  Stamp since_barrier_ = 0;
  std::vector<Stamp> writers_, readers_;
};

inline Stamp Lds::merged_reader(Stamp stamp, Actor actor) const {
  if (!is_foreign(stamp, actor)) return actor.stamp();
  const Stamp number = actor.stretch << kWorkItemBits;
  const uint32_t who = stamp & kWorkItemMask;
  if (who == kSeveralWaves) return number | kSeveralWaves;
  const uint32_t wave = who >= kSeveralLanes ? who - kSeveralLanes : who / wave_size_;
  return number | (wave == actor.wave ? kSeveralLanes + wave : kSeveralWaves);
}

inline bool Lds::reads_well(uint32_t offset, size_t bytes, Actor actor) {
  const Stamp* writers = writers_.data() + offset;
  for (size_t i = 0; i < bytes; ++i) {
    if (writers[i] == 0 || is_foreign(writers[i], actor)) return false;
  }
  Stamp* readers = readers_.data() + offset;
  Stamp last = readers[0], merged = merged_reader(last, actor);
  for (size_t i = 0; i < bytes; ++i) {
    if (readers[i] != last) merged = merged_reader(last = readers[i], actor);
    readers[i] = merged;
  }
  return true;
}

inline bool Lds::writes_well(uint32_t offset, size_t bytes, Actor actor) {
  Stamp* writers = writers_.data() + offset;
  const Stamp* readers = readers_.data() + offset;
  for (size_t i = 0; i < bytes; ++i) {
    if (is_foreign(writers[i], actor) || is_foreign(readers[i], actor)) return false;
  }
  const Stamp mine = actor.stamp();
  for (size_t i = 0; i < bytes; ++i) writers[i] = mine;
  return true;
}

}  // namespace tilewright::emu
