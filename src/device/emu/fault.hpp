// SPDX-License-Identifier: MIT
// What the emulation finds wrong with a kernel, as data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace tilewright::emu {

enum class FaultKind : uint8_t {
  kGlobalOutOfBounds,
  kLdsOutOfBounds,
  kMisaligned,
  kUninitialisedGlobal,
  kUninitialisedLds,
  kUninitialisedRegister,
  kLdsRace,
  kGlobalRace,
  kMissingWait,
  kDivergentBarrier,
  kLdsOverflow,
  kNoProgress,
  kStackOverflow,
  kInstruction,  // one that the target refuses in this state
};

const char* fault_kind_name(FaultKind kind);  // "lds_race"

struct Party {
  std::array<uint32_t, 3> work_item{};
  uint32_t wave = 0, lane = 0;
  bool writes = false;
};

struct Fault {
  FaultKind kind{};
  std::string kernel;
  std::array<uint32_t, 3> workgroup{};
  Party party;
  std::optional<Party> other;  // of a race; absent where it was more than one
  uint64_t address = 0;        // of LDS: the offset
  uint64_t bytes = 0;
  std::string buffer;    // the one meant, as far as that can be told
  std::string detail;    // "32 bytes past its end"
  uint64_t site = 0;     // in the kernel's object
  uint64_t repeats = 1;  // of the same kind at the same site

  std::string text() const;
};

}  // namespace tilewright::emu
