// SPDX-License-Identifier: MIT
// Status, last error and versions of the C ABI.
#include "api/c_status.hpp"

#include <string>

namespace tilewright::c_abi {
namespace {

struct LastError {
  std::string text;
  const char* fixed = "";  // stands in when there is no memory for the text
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

}  // namespace

tilewright_status fail(StatusCode code, const char* message) noexcept {
  LastError& error = last_error();
  try {
    error.text = message;
    error.fixed = nullptr;
  } catch (...) {
    error.fixed = "out of memory";
  }
  return static_cast<tilewright_status>(code);
}

}  // namespace tilewright::c_abi

using namespace tilewright;  // NOLINT(google-build-using-namespace)

const char* tilewright_status_name(tilewright_status status) {
  return status_code_name(static_cast<StatusCode>(status));
}

const char* tilewright_last_error(void) {
  const c_abi::LastError& error = c_abi::last_error();
  return error.fixed != nullptr ? error.fixed : error.text.c_str();
}

const char* tilewright_version(void) { return TILEWRIGHT_VERSION; }

uint32_t tilewright_c_abi(void) { return TILEWRIGHT_C_ABI; }
