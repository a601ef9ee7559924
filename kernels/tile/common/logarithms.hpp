// SPDX-License-Identifier: MIT
// Factors between logarithms, for exponentials of base 2. Freestanding.
#pragma once

namespace tilewright {

inline constexpr float kLog2E = 1.44269504f;

}  // namespace tilewright
