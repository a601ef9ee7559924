// SPDX-License-Identifier: MIT
// A problem made real: buffers with data, a reference, a verdict. Verification and measuring speak to every operator
// through it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "dispatch/operator.hpp"
#include "dispatch/plan.hpp"

namespace tilewright {

// The verdict on one run of one kernel.
struct VerifyReport {
  bool passed = false;
  double worst_ratio = 0;  // largest |error| / allowed |error|; above 1 = failed
  double rel_error = 0;    // ||error|| / ||reference|| over the compared elements
  int64_t compared = 0;    // elements compared
  std::string failure;     // "element [3, 17]: got 1.25, expected 1.5, allowed error 0.002" | "guard zone ..." | ...
};

enum class InputData : uint8_t {
  kNormal,    // N(0, 1) rounded to the dtype; integers uniform over their range
  kPositive,  // their magnitudes: sums of one sign
  kIntegers,  // small integers: sums are exact, every wrong element shows
};

class ProblemInstance {
 public:
  virtual ~ProblemInstance() = default;
  // New data for every input. The same seed gives the same data everywhere.
  virtual void fill(uint64_t seed, InputData data) = 0;
  // NaN (or the dtype's most visible value) into outputs, a pattern into the guard zones around every buffer.
  virtual void poison() = 0;
  // Addresses of copy `rotation` of the large read-only operands: measuring rotates them so that caches stay cold.
  virtual CallBindings bindings(int rotation = 0) = 0;
  virtual int rotations() const = 0;
  // Compares outputs with the float64 reference (all elements, or sampled blocks plus every tail for large outputs),
  // checks that inputs and guard zones are untouched.
  virtual VerifyReport verify() = 0;
};

class DeviceData;

struct InstanceOptions {
  int rotations = 1;
  int64_t compare_limit = int64_t{1} << 24;  // multiply-adds spent on the reference before sampling sets in
  DeviceData* device_data = nullptr;         // makes large operands where they lie; null: on the host
  bool usual = false;  // numbers of the call that most calls have, not such that show where one is left out
};

}  // namespace tilewright
