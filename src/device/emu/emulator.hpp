// SPDX-License-Identifier: MIT
// Runs kernels that the host compiler made for an AMD target, work-item by work-item, and tells what is wrong with them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/arch_spec.hpp"
#include "device/cpu/shared_object.hpp"
#include "device/emu/fault.hpp"
#include "device/emu/memory/bank_conflicts.hpp"
#include "device/emu/memory/global_memory.hpp"
#include "tile/emu/abi.hpp"

namespace tilewright::emu {

struct Counters {
  uint64_t global_read_bytes = 0, global_written_bytes = 0;
  uint64_t lds_read_bytes = 0, lds_written_bytes = 0;
  LdsTraffic lds;
  uint64_t meetings = 0;  // of waves, at cross-lane operations
  uint64_t barriers = 0;  // of workgroups

  Counters& operator+=(const Counters& other);
};

// An emulated shared object of one target. Keeps it loaded.
struct EmulatedObject {
  std::shared_ptr<const SharedObject> object;
  const ArchSpec* arch = nullptr;
  uintptr_t begin = 0, end = 0;  // where it lies: its constants may be read

  Result<KernelEntry> entry(const std::string& name) const;
};

// Refuses an object of another target, or of another version of the interface.
Result<EmulatedObject> load_emulated(std::shared_ptr<const SharedObject> object, std::string_view target);

struct EmulatedLaunch {
  std::string kernel;  // for messages
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint32_t lds_bytes = 0;
  std::span<const std::byte> arguments;  // laid out as a code object's kernarg segment
  uint64_t seed = 1;                     // of the order in which waves run
  uint32_t threads = 0;                  // of the host, 0 = as many as it has cores
  double seconds_without_progress = 10;  // of a workgroup whose lanes only spin
  uint32_t max_faults = 16;
};

struct EmulatedReport {
  std::vector<Fault> faults;  // of the first workgroups, one for a kind at a place
  uint64_t faults_found = 0;  // with repeats, before the launch was given up
  Counters counters;

  const Fault* find(FaultKind kind) const;
  Status status() const;  // ok without faults; otherwise the first ones' words
};

// Workgroups run on several host threads, each to its end: one may wait for another only if that one comes first in the
// grid. The result does not depend on the threads, unless the kernel's does on the order of its workgroups.
Result<EmulatedReport> run_emulated(const EmulatedObject& object, KernelEntry entry, const EmulatedLaunch& launch,
                                    const GlobalMemory& memory);

}  // namespace tilewright::emu
