// SPDX-License-Identifier: MIT
// Compiled code that instances of a target share, carried in the library: kernels/<op>/cpu/<op>_support_cpu.hpp names it.
#pragma once

#include <string_view>

namespace tilewright {

// A relocatable object of the build, compiled with the JIT's flags and the target's; "" when there is none.
std::string_view support_object(std::string_view target);

}  // namespace tilewright
