// SPDX-License-Identifier: MIT
// What the program's exit codes mean (docs/cli.md has the same table).
#pragma once

#include "tilewright/status.hpp"

namespace tilewright::cli {

enum class ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,  // a kernel is wrong, a cache entry is damaged, the doctor found a fault
  kUsage = 2,        // a bad argument or problem text
  kNotFound = 3,     // a model, file, target or kernel that does not exist
  kEnvironment = 4,  // no compiler, no memory, a folder that cannot be written, a device that refuses
  kInternal = 5,     // a fault of tilewright
};

// One line each, for --help.
inline constexpr const char* kExitCodeHelp =
    "Exit codes: 0 ok, 1 a check failed, 2 usage, 3 not found, 4 environment (no compiler, no memory, a folder that\n"
    "cannot be written), 5 internal fault.";

inline ExitCode exit_code_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return ExitCode::kOk;
    case StatusCode::kInvalidArgument: return ExitCode::kUsage;
    case StatusCode::kNotFound: return ExitCode::kNotFound;
    case StatusCode::kVerifyFailed:
    case StatusCode::kCorrupt: return ExitCode::kCheckFailed;
    case StatusCode::kInternal: return ExitCode::kInternal;
    case StatusCode::kUnsupported:
    case StatusCode::kOutOfMemory:
    case StatusCode::kCompileFailed:
    case StatusCode::kCompileDisabled:
    case StatusCode::kDeviceError:
    case StatusCode::kTimeout:
    case StatusCode::kIoError: return ExitCode::kEnvironment;
  }
  return ExitCode::kInternal;
}

}  // namespace tilewright::cli
