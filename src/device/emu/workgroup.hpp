// SPDX-License-Identifier: MIT
// One workgroup at a time on one host thread: its fibers, waves and barriers, and what each access is checked against.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "device/emu/emulator.hpp"
#include "device/emu/memory/lds.hpp"

namespace tilewright::emu {

class Workgroup {
 public:
  Workgroup(const EmulatedObject& object, KernelEntry entry, const EmulatedLaunch& launch, const GlobalMemory& memory);
  ~Workgroup();
  Workgroup(const Workgroup&) = delete;
  Workgroup& operator=(const Workgroup&) = delete;

  // False when it cannot go on; the launch then ends. Later workgroups may follow on the same fibers.
  bool run(std::array<uint32_t, 3> id, uint64_t order_seed);

  // Of all workgroups that ran here; faults are those of the last one.
  Counters counters;
  std::vector<Fault> faults;

 private:
  struct Copy {
    unsigned char* to;
    uint32_t bytes;
    uint32_t work_item;
    bool to_lds;
    std::array<unsigned char, 16> data;
  };
  struct Wave;
  struct Lane {
    Workgroup* workgroup;
    Wave* wave;
    LaneState* state;
    void* saved;  // stack pointer
    const void* site;
    uint32_t work_item;
  };
  // Sets of lanes: alive are those that have not ended; each of them is ready, or waits.
  struct Wave {
    uint32_t index = 0, first = 0;
    uint64_t alive = 0, ready = 0, waiting = 0, at_barrier = 0;
    uint64_t stopped = 0;  // ended by a fault
    const void* site = nullptr;
    bool mixed = false;  // lanes wait at several sites
    uint32_t stretch = 0;
    std::array<WaveFunction, kMaxLanes> functions{};
    WaveView view{};
    LdsInstructions lds_instructions;
    std::deque<std::vector<Copy>> in_flight;
  };

  static Workgroup& of(const LaneState* state) { return *lane_of(state)->workgroup; }
  static Lane* lane_of(const LaneState* state) { return static_cast<Lane*>(state->work_item); }
  static const EngineTable& table();
  static void lane_main();

  void start(std::array<uint32_t, 3> id);
  void leave(Lane& lane);    // to whoever can run; returns when `lane` runs again
  bool resolve(Wave& wave);  // lets those go on who wait at one place; false when nobody waits
  [[noreturn]] void end(Lane& lane, bool stopped);
  bool release_barrier();  // false when all lanes have ended
  bool out_of_time();
  [[noreturn]] void give_up(Lane& lane);

  bool check(Lane& lane, uintptr_t address, size_t bytes, AccessKind kind, const void* site);
  bool check_lds(Lane& lane, uintptr_t address, size_t bytes, AccessKind kind, const void* site);
  void report_lds(Lane& lane, const Lds::Result& result, uint32_t offset, size_t bytes, bool writes, const void* site);
  void report_misaligned(Lane& lane, uintptr_t address, uint32_t alignment, const char* file, uint32_t line,
                         const void* site);
  void land(Wave& wave, size_t outstanding);
  void meet_done(Wave& wave);
  Lds::Actor actor(const Lane& lane) const { return {lane.work_item, lane.wave->index, lane.wave->stretch}; }
  Party party(uint32_t work_item, bool writes) const;
  Fault* report(FaultKind kind, const Lane& lane, bool writes, const void* site);

  const EmulatedObject& object_;
  const KernelEntry entry_;
  const EmulatedLaunch& launch_;
  const GlobalMemory& memory_;
  const uint32_t wave_size_, work_items_;
  const bool gfx9_;
  const uint32_t banks_;
  Lds lds_;
  unsigned char* mapping_ = nullptr;
  unsigned char* stacks_ = nullptr;
  std::vector<Lane> lanes_;
  std::vector<Wave> waves_;
  void* scheduler_ = nullptr;  // its stack pointer while a lane runs
  const GlobalMemory::Buffer* last_buffer_ = nullptr;
  std::array<uint32_t, 3> id_{};
  GlobalMemory::Mark mark_ = GlobalMemory::kShared;
  bool for_wave_ = false;                    // a function for a whole wave runs
  bool given_up_ = false, damaged_ = false;  // damaged: a lane was stopped, so that others may miss it
  uint64_t progress_ = 0, progress_seen_ = 0, accesses_ = 0;
  std::chrono::steady_clock::time_point progress_time_;
};

}  // namespace tilewright::emu
