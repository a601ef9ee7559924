// SPDX-License-Identifier: MIT
// Reading cpuid and XCR0.
#include "arch/cpuid.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tilewright {

#if defined(__x86_64__)

std::array<uint32_t, 4> cpuid(uint32_t leaf, uint32_t subleaf) {
  std::array<uint32_t, 4> r{};
  // Fails for a leaf above the highest one, where the instruction would answer with another leaf's data.
  __get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]);
  return r;
}

namespace {

// The target attribute lets one function use the instruction in a file that runs on every x86-64.
__attribute__((target("xsave"))) uint64_t read_xcr0() { return _xgetbv(0); }

}  // namespace

uint64_t os_saved_state() {
  constexpr uint32_t kOsxsave = 1u << 27;  // leaf 1, ecx: xgetbv may be used
  if ((cpuid(1, 0)[2] & kOsxsave) == 0) return 0;
  return read_xcr0();
}

#else

std::array<uint32_t, 4> cpuid(uint32_t, uint32_t) { return {}; }
uint64_t os_saved_state() { return 0; }

#endif

bool cpu_has(std::string_view feature) {
  for (const CpuidBit& bit : cpuid_bits()) {
    if (bit.name != feature) continue;
    if ((cpuid(bit.leaf, bit.subleaf)[bit.register_index] >> bit.bit & 1) == 0) return false;
    return (os_saved_state() & bit.xcr0) == bit.xcr0;
  }
  return false;
}

}  // namespace tilewright
