// SPDX-License-Identifier: MIT
// What each load and store of a workgroup is checked against.
#include <fmt/format.h>

#include <cstring>

#include "device/emu/workgroup.hpp"

namespace tilewright::emu {
namespace {

std::string where_in(const GlobalMemory::Buffer& buffer, uintptr_t address, size_t bytes) {
  const uint64_t size = buffer.end - buffer.begin;
  if (address >= buffer.end) return fmt::format("{} bytes past the end of its {}", address - buffer.end, size);
  if (address < buffer.begin) return fmt::format("{} bytes before its begin", buffer.begin - address);
  return fmt::format("its last {} bytes lie past the end of the {}", address + bytes - buffer.end, size);
}

}  // namespace

// False when the access must not happen.
bool Workgroup::check(Lane& lane, uintptr_t address, size_t bytes, AccessKind kind, const void* site) {
  if (++accesses_ % (uint64_t{1} << 22) == 0 && out_of_time()) give_up(lane);
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here % kStackBytes < kStackReserve) {
    if (Fault* fault = report(FaultKind::kStackOverflow, lane, false, site))
      fault->detail = fmt::format("private memory of more than {} bytes", kStackBytes - kStackReserve);
    return false;
  }
  if (lds_.near(address)) return check_lds(lane, address, bytes, kind, site);
  const bool writes = kind != kRead;
  const GlobalMemory::Buffer* buffer = last_buffer_;
  if (buffer == nullptr || address < buffer->begin || address >= buffer->end) buffer = memory_.find(address);
  if (buffer == nullptr || bytes > buffer->end - address) {
    const auto arguments = reinterpret_cast<uintptr_t>(launch_.arguments.data());
    const bool own_constant = address >= object_.begin && address + bytes <= object_.end && !writes;
    const bool own_argument =
        address >= arguments && address + bytes <= arguments + launch_.arguments.size() && !writes;
    if (buffer == nullptr && (own_constant || own_argument)) return true;
    if (buffer == nullptr) buffer = memory_.nearest(address);
    if (Fault* fault = report(FaultKind::kGlobalOutOfBounds, lane, writes, site)) {
      fault->address = address;
      fault->bytes = bytes;
      if (buffer != nullptr) {
        fault->buffer = buffer->name;
        fault->detail = where_in(*buffer, address, bytes);
      } else {
        fault->detail = "no buffer is registered";
      }
    }
    return false;
  }
  last_buffer_ = buffer;
  if (kind != kWrite) {
    counters.global_read_bytes += bytes;
    if (!buffer->is_written(address, bytes)) {
      if (Fault* fault = report(FaultKind::kUninitialisedGlobal, lane, false, site)) {
        fault->address = address;
        fault->bytes = bytes;
        fault->buffer = buffer->name;
        fault->detail = fmt::format("at byte {}: nobody wrote it", address - buffer->begin);
      }
    }
  }
  if (writes) {
    counters.global_written_bytes += bytes;
    if (!buffer->mark_written(address, bytes, kind == kAtomic ? GlobalMemory::kShared : mark_)) {
      if (Fault* fault = report(FaultKind::kGlobalRace, lane, true, site)) {
        fault->address = address;
        fault->bytes = bytes;
        fault->buffer = buffer->name;
        fault->detail = fmt::format("at byte {}: another workgroup of the launch wrote it", address - buffer->begin);
      }
    }
  }
  return true;
}

bool Workgroup::check_lds(Lane& lane, uintptr_t address, size_t bytes, AccessKind kind, const void* site) {
  const bool writes = kind != kRead;
  if (!lds_.inside(address, bytes)) {
    if (Fault* fault = report(FaultKind::kLdsOutOfBounds, lane, writes, site)) {
      fault->address = lds_.offset_of(address);
      fault->bytes = bytes;
      fault->buffer = "LDS";
      fault->detail = fmt::format("the launch has {} bytes", lds_.bytes());
    }
    return false;
  }
  const auto offset = static_cast<uint32_t>(lds_.offset_of(address));
  const Lds::Actor who = actor(lane);
  const bool well = kind == kRead    ? lds_.reads_well(offset, bytes, who)
                    : kind == kWrite ? lds_.writes_well(offset, bytes, who)
                                     : false;
  if (!well) {
    const Lds::Result result = kind == kAtomic ? lds_.atomic(offset, bytes, who)
                               : writes        ? lds_.write(offset, bytes, who)
                                               : lds_.read(offset, bytes, who);
    if (result.finding != Lds::Finding::kNone) report_lds(lane, result, offset, bytes, writes, site);
  }
  if (kind != kWrite) counters.lds_read_bytes += bytes;
  if (writes) counters.lds_written_bytes += bytes;
  lane.wave->lds_instructions.add(lane.state->lane, site, offset, bytes, writes);
  return true;
}

void Workgroup::report_lds(Lane& lane, const Lds::Result& result, uint32_t offset, size_t bytes, bool writes,
                           const void* site) {
  const FaultKind kind = result.finding == Lds::Finding::kRace          ? FaultKind::kLdsRace
                         : result.finding == Lds::Finding::kMissingWait ? FaultKind::kMissingWait
                                                                        : FaultKind::kUninitialisedLds;
  Fault* fault = report(kind, lane, writes, site);
  if (fault == nullptr) return;
  fault->address = offset;
  fault->bytes = bytes;
  fault->buffer = "LDS";
  if (kind == FaultKind::kUninitialisedLds) {
    fault->detail = fmt::format("nobody wrote the byte at {:#x}", result.offset);
  } else if (kind == FaultKind::kMissingWait) {
    fault->detail = "a copy into it is in flight: no s_waitcnt vmcnt(n) has waited for it";
  } else if (result.other < kSeveralLanes) {
    fault->other = party(result.other, result.other_wrote);
    fault->detail = result.other / wave_size_ == lane.wave->index ? "no point between where the lanes of the wave meet"
                                                                  : "no barrier between";
  } else {
    fault->detail =
        result.other == kSeveralWaves
            ? std::string("lanes of several waves read it, no barrier between")
            : fmt::format("lanes of wave {} read it, no barrier or meeting between", result.other - kSeveralLanes);
  }
}

void Workgroup::report_misaligned(Lane& lane, uintptr_t address, uint32_t alignment, const char* file, uint32_t line,
                                  const void* site) {
  Fault* fault = report(FaultKind::kMisaligned, lane, false, site);
  if (fault == nullptr) return;
  fault->address = address;
  fault->detail = fmt::format("address {:#x}: its type wants a multiple of {} ({}:{})", address, alignment, file, line);
  if (lds_.near(address)) {
    fault->buffer = "LDS";
    fault->address = lds_.offset_of(address);
  } else if (const GlobalMemory::Buffer* buffer = memory_.find(address)) {
    fault->buffer = buffer->name;
  }
}

// All but the newest `outstanding` instructions of the wave arrive.
void Workgroup::land(Wave& wave, size_t outstanding) {
  while (wave.in_flight.size() > outstanding) {
    for (const Copy& copy : wave.in_flight.front()) {
      if (copy.to_lds) {
        const uintptr_t to = reinterpret_cast<uintptr_t>(copy.to);
        lds_.land(static_cast<uint32_t>(lds_.offset_of(to)), copy.data.data(), copy.bytes,
                  actor(lanes_[copy.work_item]));
      } else {
        std::memcpy(copy.to, copy.data.data(), copy.bytes);
      }
    }
    wave.in_flight.pop_front();
  }
}

}  // namespace tilewright::emu
