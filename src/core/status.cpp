// SPDX-License-Identifier: MIT
// Names of status codes and the one-line form of a Status.
#include "tilewright/status.hpp"

namespace tilewright {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid_argument";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kNotFound: return "not_found";
    case StatusCode::kOutOfMemory: return "out_of_memory";
    case StatusCode::kCompileFailed: return "compile_failed";
    case StatusCode::kCompileDisabled: return "compile_disabled";
    case StatusCode::kDeviceError: return "device_error";
    case StatusCode::kVerifyFailed: return "verify_failed";
    case StatusCode::kTimeout: return "timeout";
    case StatusCode::kIoError: return "io_error";
    case StatusCode::kCorrupt: return "corrupt";
    case StatusCode::kInternal: return "internal";
  }
  return "unknown";  // a code from a newer library, through the C ABI
}

std::string Status::to_string() const {
  if (ok()) return status_code_name(StatusCode::kOk);
  return std::string(status_code_name(code())) + ": " + message();
}

}  // namespace tilewright
