// SPDX-License-Identifier: MIT
// The limit of a row, probed between the row's own bursts: what the instruction or the memory did in the same round.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "peer/bursts.hpp"
#include "tuning/report/roofline.hpp"

namespace tilewright::cli {

class LimitSide {
 public:
  // Takes memory of the cold footprint (device/host_memory.hpp) when the first row asks for bandwidth.
  explicit LimitSide(Device& device);
  ~LimitSide();

  // A side whose "time of one call" is the least time that `operations` and `bytes` take at what the probe did: the
  // instruction of `roof` where arithmetic is the limit, else reading memory. An error when there is no such probe.
  Result<BurstSide> side(const Roof& roof, double operations, double bytes, int units);

 private:
  struct Memory;
  Result<BurstSide> memory_side(double bytes, int units);

  Device& device_;
  std::shared_ptr<const LoadedKernel> arithmetic_, reading_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tilewright::cli
