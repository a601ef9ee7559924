// SPDX-License-Identifier: MIT
// Calls captured into a graph and timed on the device, between two events.
#pragma once

#include "device/cuda/cuda_kernel.hpp"

namespace tilewright::cuda {

Result<std::unique_ptr<Burst>> make_graph_burst(const Place& place, const TurnedCall& call, int first_turn, int count);

}  // namespace tilewright::cuda
