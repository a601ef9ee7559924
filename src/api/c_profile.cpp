// SPDX-License-Identifier: MIT
// Profiling hooks of the C ABI.
#include "api/c_status.hpp"
#include "tilewright/profile.hpp"
#include "tilewright/tilewright.h"

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_set_profile_callbacks(tilewright_profile_push push, tilewright_profile_pop pop,
                                                   void* user) {
  return guarded([&] { return set_profile_callbacks({push, pop, user}); });
}
