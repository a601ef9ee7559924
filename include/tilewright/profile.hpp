// SPDX-License-Identifier: MIT
// Named ranges around the stages of a call, for profilers: docs/profiling.md. TILEWRIGHT_PROFILE chooses NVTX, roctx or a
// trace file; a program that has a profiler of its own sets callbacks here.
#pragma once

#include "tilewright/status.hpp"

namespace tilewright {

// Called on the thread that runs the stage, push and pop in pairs, nested: "tilewright:gemm:plan". `name` lives as long as
// the call of push. They are called from many threads at once, must not throw and must not call tilewright.
struct ProfileCallbacks {
  void (*push)(void* user, const char* name) = nullptr;
  void (*pop)(void* user) = nullptr;
  void* user = nullptr;
};

// From now on, for the whole process; both null = none. A range that is open meanwhile ends with the callbacks that it
// began with, so what was set stays callable until the calls under way are over.
TILEWRIGHT_API Status set_profile_callbacks(const ProfileCallbacks& callbacks);

}  // namespace tilewright
