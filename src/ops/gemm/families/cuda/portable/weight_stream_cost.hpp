// SPDX-License-Identifier: MIT
// Cost of kernels that are bound by how fast weights come from memory.
#pragma once

#include "device/device.hpp"

namespace tilewright {

struct WeightStream {
  double bytes = 0;            // of all operands
  double blocks = 0;           // that share the weights
  double resident = 1;         // of them on a multiprocessor at a time
  double block_bytes = 0;      // that a block brings
  double block_in_flight = 0;  // of those, at a time
};

// Predicted seconds, the launch included.
double weight_stream_seconds(const DeviceSpec& device, const WeightStream& stream);

}  // namespace tilewright
