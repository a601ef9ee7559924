// SPDX-License-Identifier: MIT
// What a family is asked about without its GPU: a device's spec, a problem from its text.
#pragma once

#include <gtest/gtest.h>

#include "arch/arch_spec.hpp"
#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "device/device.hpp"
#include "dispatch/registry/family.hpp"
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

inline DeviceSpec cpu_device(const char* target, const char* part = "") {
  DeviceSpec device;
  device.arch = find_arch(target);
  for (const ArchSpec* arch = device.arch; arch != nullptr; arch = find_arch(arch->base))
    device.targets.push_back(arch);
  device.part = part;
  device.units = 2;
  return device;
}

// The first part of a target.
inline DeviceSpec first_part(const char* target) {
  const ArchSpec* arch = find_arch(target);
  return spec_of_part(*arch, arch->parts.front());
}

inline GemmProblem problem(const std::string& text) {
  Result<GemmProblem> parsed = parse_gemm_problem(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed ? *parsed : GemmProblem();
}

// The config of the family's first candidate.
template <class Config>
Config best_config(const KernelFamily& family, const char* target, const std::string& text) {
  const GemmProblem p = problem(text);
  const std::vector<Candidate> found = family.candidates(erase(p), first_part(target));
  Config config{};
  EXPECT_FALSE(found.empty()) << target << " " << text;
  if (!found.empty()) {
    EXPECT_TRUE(parse_fields(found.front().step.key.config(), config).ok());
  }
  return config;
}

}  // namespace tilewright::test
