// SPDX-License-Identifier: MIT
#include "device/cpu/clock.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

#include "arch/arch_spec.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tilewright {
namespace {

// "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz"
double from_brand(const std::string& brand) {
  const size_t at = brand.find("@ ");
  if (at == std::string::npos || brand.find("GHz", at) == std::string::npos) return 0;
  return std::strtod(brand.c_str() + at + 2, nullptr);
}

double from_cpuid() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(0x16, 0, &eax, &ebx, &ecx, &edx)) return (eax & 0xffff) / 1000.0;  // base frequency in MHz
#endif
  return 0;
}

// "bogomips : 5400.00" is twice the time stamp counter's frequency in MHz.
double from_bogomips() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("bogomips", 0) != 0) continue;
    const size_t colon = line.find(':');
    return colon == std::string::npos ? 0 : std::strtod(line.c_str() + colon + 1, nullptr) / 2000.0;
  }
  return 0;
}

double detect() {
  double ghz = from_brand(cpu_info().brand);
  if (ghz == 0) ghz = from_cpuid();
  if (ghz == 0) ghz = from_bogomips();
  return ghz;
}

}  // namespace

double nominal_clock_ghz() {
  static const double ghz = detect();
  return ghz;
}

}  // namespace tilewright
