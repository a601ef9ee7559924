// SPDX-License-Identifier: MIT
// plan.json: a plan as data, for programs that launch it without tilewright (docs/export.md).
#pragma once

#include <string>
#include <vector>

#include "device/device.hpp"
#include "dispatch/plan.hpp"
#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

// What tells apart files that programs read.
inline constexpr int kPlanFormatVersion = 1;

// A kernel's code as a file of its own.
struct ExportedCode {
  std::string key;     // the kernel's
  std::string symbol;  // its entry
  std::string file;    // below the folder
  std::string code;
};

struct ExportedPlan {
  std::string text;  // of plan.json
  std::vector<ExportedCode> files;
};

// `plan` was bound on an absent device of `spec`. Refuses plans with a stage of a vendor's library.
Result<ExportedPlan> export_plan(const NamedProblem& problem, const DeviceSpec& spec, const Plan& plan);

}  // namespace tilewright::cli
