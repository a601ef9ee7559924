// SPDX-License-Identifier: MIT
#include "device/emu/fault.hpp"

#include <fmt/format.h>

namespace tilewright::emu {
namespace {

std::string triple(const std::array<uint32_t, 3>& v) { return fmt::format("({}, {}, {})", v[0], v[1], v[2]); }

std::string party_text(const Party& party) {
  return fmt::format("work-item {} (wave {}, lane {})", triple(party.work_item), party.wave, party.lane);
}

}  // namespace

const char* fault_kind_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kGlobalOutOfBounds: return "global_out_of_bounds";
    case FaultKind::kLdsOutOfBounds: return "lds_out_of_bounds";
    case FaultKind::kMisaligned: return "misaligned";
    case FaultKind::kUninitialisedGlobal: return "uninitialised_global";
    case FaultKind::kUninitialisedLds: return "uninitialised_lds";
    case FaultKind::kUninitialisedRegister: return "uninitialised_register";
    case FaultKind::kLdsRace: return "lds_race";
    case FaultKind::kGlobalRace: return "global_race";
    case FaultKind::kMissingWait: return "missing_wait";
    case FaultKind::kDivergentBarrier: return "divergent_barrier";
    case FaultKind::kLdsOverflow: return "lds_overflow";
    case FaultKind::kNoProgress: return "no_progress";
    case FaultKind::kStackOverflow: return "stack_overflow";
    case FaultKind::kInstruction: return "instruction";
  }
  return "?";
}

std::string Fault::text() const {
  std::string line = fmt::format("{}: {}", fault_kind_name(kind), kernel);
  if (kind == FaultKind::kLdsOverflow) return line + ": " + detail;
  line += fmt::format(", workgroup {}, {}", triple(workgroup), party_text(party));
  if (bytes != 0) {
    line += fmt::format(" {} {} bytes at {}{:#x}", party.writes ? "writes" : "reads", bytes,
                        buffer == "LDS" ? "LDS offset " : "", address);
  }
  if (!buffer.empty() && buffer != "LDS") line += fmt::format(" ({})", buffer);
  if (!detail.empty()) line += ": " + detail;
  if (other) line += fmt::format("; the other is {}, which {}", party_text(*other), other->writes ? "wrote" : "read");
  if (site != 0) line += fmt::format(" [code {:#x}]", site);
  if (repeats > 1) line += fmt::format(", {} times", repeats);
  return line;
}

}  // namespace tilewright::emu
