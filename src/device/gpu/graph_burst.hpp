// SPDX-License-Identifier: MIT
// Calls captured into a graph and timed on the device, between two events.
#pragma once

#include "device/device.hpp"
#include "device/gpu/runtime.hpp"

namespace tilewright::gpu {

// `runtime` must outlive it.
Result<std::unique_ptr<Burst>> make_graph_burst(const Runtime& runtime, const TurnedCall& call, int first_turn,
                                                int count);

}  // namespace tilewright::gpu
