// SPDX-License-Identifier: MIT
// Permission to use AMX: Linux saves the 8 KiB of tile state only for processes that have asked.
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/arch_spec.hpp"
#include "arch/cpuid.hpp"

namespace tilewright {

bool request_amx() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  // Permission belongs to the process and is inherited by threads and by fork.
  static const bool granted = [] {
    constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
    if (!cpu_has("amx_tile")) return false;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return granted;
#else
  return false;
#endif
}

}  // namespace tilewright
