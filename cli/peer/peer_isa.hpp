// SPDX-License-Identifier: MIT
// A lowered CPU target holds for both sides: TILEWRIGHT_CPU_TARGET=x86-64-v4 compared with a oneDNN that uses AMX would
// say nothing.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace tilewright::cli {

// The variables, and their values, that hold other libraries to the instructions of an x86-64 target.
std::vector<std::pair<const char*, const char*>> peer_isa_variables(std::string_view target);

// Sets them for the children of this process where TILEWRIGHT_CPU_TARGET lowers the target. What the user set stays.
void hold_peers_to_target();

}  // namespace tilewright::cli
