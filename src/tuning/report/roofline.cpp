// SPDX-License-Identifier: MIT
#include "tuning/report/roofline.hpp"

#include <algorithm>

namespace tilewright {
namespace {

// Between one unit and all of them rates grow with the units, up to what all of them reach together.
double rate_of(double one, double all, int units, int device_units) {
  if (units >= device_units) return all;
  if (one <= 0) return all;
  return std::min(std::max(one, all), one * units);
}

}  // namespace

DeviceLimits limits_of_units(const DeviceSpec& spec, const DeviceLimits& limits, int units) {
  if (units <= 0 || units > spec.units) units = spec.units;
  DeviceLimits part = limits;
  part.read_gbps_all = rate_of(limits.read_gbps_unit, limits.read_gbps_all, units, spec.units);
  for (DeviceLimits::Peak& peak : part.peaks) {
    peak.gflops_all = rate_of(peak.gflops_unit, peak.gflops_all, units, spec.units);
    if (units < spec.units) peak.gflops_sustained = 0;  // another power
  }
  if (units < spec.units) part.copy_gbps_all = part.launch_us = 0;  // measured with all units only
  return part;
}

bool multiplies(const MmaSpec& mma, DType dtype) {
  return mma.input == dtype || (mma.input == DType::kF32 && (dtype == DType::kF16 || dtype == DType::kBf16));
}

double Roof::limit_us(double operations, double bytes) const {
  const double arithmetic = peak_gflops > 0 ? operations / peak_gflops * 1e-3 : 0;
  const double memory = read_gbps > 0 ? bytes / read_gbps * 1e-3 : 0;
  return std::max(arithmetic, memory);
}

double Roof::fraction(double operations, double bytes, double us) const {
  return us > 0 ? limit_us(operations, bytes) / us : 0;
}

bool Roof::compute_bound(double operations, double bytes) const {
  return peak_gflops > 0 && operations * read_gbps > bytes * peak_gflops;
}

Roof roof_of(const DeviceSpec& spec, const DeviceLimits& limits, DType dtype, int units) {
  const DeviceLimits own = limits_of_units(spec, limits, units);
  Roof roof;
  roof.read_gbps = own.read_gbps_all;
  if (spec.arch == nullptr || dtype == DType::kNone) return roof;
  for (const MmaSpec& mma : spec.arch->mma) {
    if (!multiplies(mma, dtype)) continue;
    for (const DeviceLimits::Peak& peak : own.peaks) {
      if (peak.mma != peak_name(mma) || peak.gflops_all <= roof.peak_gflops) continue;
      roof.mma = peak.mma, roof.peak_gflops = peak.gflops_all;
      roof.sustained_gflops = peak.gflops_sustained;
    }
  }
  return roof;
}

Roof roof_of(const DeviceSpec& spec, const DeviceLimits& limits, const Operator& op, ProblemRef problem, int units) {
  return roof_of(spec, limits, op.multiplied_dtype(problem), units);
}

}  // namespace tilewright
