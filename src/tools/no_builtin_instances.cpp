// SPDX-License-Identifier: MIT
// The instance table of the generator itself: empty.
#include "dispatch/registry/family.hpp"

namespace tilewright {

std::span<const BuiltinInstance> builtin_instances() { return {}; }

}  // namespace tilewright
