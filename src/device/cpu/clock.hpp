// SPDX-License-Identifier: MIT
// The CPU's nominal clock, from sources that do not change while the machine runs.
#pragma once

namespace tilewright {

// 0 when the CPU does not say. Never the momentary frequency: what depends on it must be the same in every process.
double nominal_clock_ghz();

}  // namespace tilewright
