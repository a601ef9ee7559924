// SPDX-License-Identifier: MIT
// What a family is asked about without its GPU: a device's spec, a problem from its text.
#pragma once

#include <gtest/gtest.h>

#include "arch/arch_spec.hpp"
#include "device/device.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright::test {

inline DeviceSpec cuda_device(const char* target, int units) {
  DeviceSpec device;
  device.id = {DeviceKind::kCuda, 0};
  device.arch = find_arch(target);
  device.targets = {device.arch};
  device.units = units;
  return device;
}

inline GemmProblem problem(const std::string& text) {
  Result<GemmProblem> parsed = parse_gemm_problem(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed ? *parsed : GemmProblem();
}

}  // namespace tilewright::test
