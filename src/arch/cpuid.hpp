// SPDX-License-Identifier: MIT
// The cpuid instruction, and the features that arch_specs.json names by their cpuid bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tilewright {

// One feature: register 0 to 3 is eax to edx; `xcr0` is the state that the operating system must save for it.
struct CpuidBit {
  std::string_view name;
  uint32_t leaf, subleaf;
  int register_index, bit;
  uint32_t xcr0;
};
std::span<const CpuidBit> cpuid_bits();

// eax to edx; zeros for leaves that the CPU does not have, and on other processors than x86-64.
std::array<uint32_t, 4> cpuid(uint32_t leaf, uint32_t subleaf);
// XCR0: what register state the operating system saves; 0 when it does not say.
uint64_t os_saved_state();

// The CPU has the feature and the operating system saves its state. AMX also needs request_amx().
bool cpu_has(std::string_view feature);

}  // namespace tilewright
