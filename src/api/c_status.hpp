// SPDX-License-Identifier: MIT
// What every function of the C ABI shares: no exception leaves it, and the last error of each thread is kept.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "tilewright/status.hpp"
#include "tilewright/tilewright.h"

namespace tilewright::c_abi {

// Remembers the message for tilewright_last_error() and gives the code back.
tilewright_status fail(StatusCode code, const char* message) noexcept;

// Runs `body`, which returns a Status, and turns whatever happens into a code.
template <class Body>
tilewright_status guarded(Body&& body) noexcept {
  try {
    const Status status = std::forward<Body>(body)();
    return status.ok() ? TILEWRIGHT_OK : fail(status.code(), status.message().c_str());
  } catch (const std::bad_alloc&) {
    return fail(StatusCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    return fail(StatusCode::kInternal, error.what());
  } catch (...) {
    return fail(StatusCode::kInternal, "an exception of unknown type");
  }
}

inline Status missing(const char* function, const char* argument) {
  return Status(StatusCode::kInvalidArgument, std::string(function) + ": argument '" + argument + "' is NULL");
}

}  // namespace tilewright::c_abi
