// SPDX-License-Identifier: MIT
// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace tilewright::cli {

std::string print_bytes(int64_t bytes);                       // "48 KiB", "2 MiB"
std::string print_seconds(double seconds);                    // "0.4 s", "12 s", "1 min 05 s"
std::string print_significant(double value, int digits = 3);  // "0.0123", "12.3", "1230"
std::string print_percent(double fraction);                   // "83 %"
std::string print_ratio(double ratio);                        // "1.23x"

}  // namespace tilewright::cli
