// SPDX-License-Identifier: MIT
// How large an output a CPU's core finds again in its caches, for kernels and for the host. Freestanding.
#pragma once

namespace tilewright {

// Where an output is larger, who reads it next finds little of it in a cache that is this core's own.
inline constexpr long long kCachedOutputBytes = 4 << 20;

}  // namespace tilewright
