// SPDX-License-Identifier: MIT
// A fixed time, the rate of memory, and what waves of blocks and too few bytes in flight take from that rate. The fixed
// time and the rate are fitted to sm_90.
#include "ops/gemm/families/cuda/portable/weight_stream_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.94;       // of the nominal bandwidth
constexpr double kFixedSeconds = 3.3e-6;    // launch, first bytes, end
constexpr double kBlockSeconds = 6e-7;      // until a block's first bytes come; others of the SM stream meanwhile
constexpr double kLatencySeconds = 2e-6;    // of memory under load
constexpr double kPerBlockSeconds = 4e-10;  // barriers and sums of a block, over all SMs

}  // namespace

double weight_stream_seconds(const DeviceSpec& device, const WeightStream& s) {
  const double memory = kMemoryShare * memory_bytes_per_second(device), units = std::max(1, device.units);
  // Bytes in flight over all SMs against what the latency asks for.
  const double present = std::min(s.blocks, units * s.resident);
  const double rate = std::min(memory, present * s.block_in_flight / kLatencySeconds);
  // Blocks that start later wait for their first bytes while fewer others stream.
  const double rounds = std::max(1.0, s.blocks / (units * s.resident));
  const double starts = (rounds - 1) * kBlockSeconds / s.resident * std::min(1.0, s.block_in_flight / s.block_bytes);
  return kFixedSeconds + s.bytes / rate + starts + s.blocks * kPerBlockSeconds;
}

}  // namespace tilewright
