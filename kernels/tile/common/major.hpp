// SPDX-License-Identifier: MIT
// How an operand of a product lies in memory. Freestanding.
#pragma once

namespace tilewright {

// The dimension of A or B along which its elements are neighbours: K, or M of A and N of B.
enum class Major : unsigned char { kK, kMn };
inline constexpr const char* kMajorNames[] = {"k", "mn"};
constexpr const char* const* enum_names(Major) { return kMajorNames; }
constexpr int enum_count(Major) { return 2; }

}  // namespace tilewright
