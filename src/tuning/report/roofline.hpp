// SPDX-License-Identifier: MIT
// The limit that a time is reported against: the measured peak of the fastest legal instruction, and the measured read
// bandwidth.
#pragma once

#include <string>

#include "device/device.hpp"
#include "dispatch/operator.hpp"

namespace tilewright {

struct Roof {
  std::string mma;              // the fastest instruction for the dtype; "" = none measured
  double peak_gflops = 0;       // 0 = unknown
  double sustained_gflops = 0;  // 0 = unknown, or as the peak
  double read_gbps = 0;         // 0 = unknown

  // The least time that the roofs allow; 0 when neither is known.
  double limit_us(double operations, double bytes) const;
  // The same for calls that follow each other for long.
  Roof sustained() const {
    return sustained_gflops > 0 ? Roof{mma, sustained_gflops, sustained_gflops, read_gbps} : *this;
  }
  // limit_us / us, or 0 when the limit is unknown.
  double fraction(double operations, double bytes, double us) const;
  // Whether arithmetic, not memory, sets the limit.
  bool compute_bound(double operations, double bytes) const;
};

// The limits of `units` units: their own where one or all were measured, between them at most so many times one unit's.
// `_all` of the result stands for those units.
DeviceLimits limits_of_units(const DeviceSpec& spec, const DeviceLimits& limits, int units);

// Whether the instruction serves inputs of `dtype`: f16 and bf16 also run on f32 instructions, widened.
bool multiplies(const MmaSpec& mma, DType dtype);
// What `units` units can do with inputs of `dtype`.
Roof roof_of(const DeviceSpec& spec, const DeviceLimits& limits, DType dtype, int units = 0);
Roof roof_of(const DeviceSpec& spec, const DeviceLimits& limits, const Operator& op, ProblemRef problem, int units = 0);

}  // namespace tilewright
