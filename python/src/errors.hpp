// SPDX-License-Identifier: MIT
// Every failure becomes one exception type in Python: tilewright.Error (or its InvalidArgument), with the status' code.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "tilewright/status.hpp"

namespace tilewright::python {

namespace nb = nanobind;

// Raises the exception of a status that is not ok. When a Python exception is passed as `cause`, the new one is chained
// to it.
[[noreturn]] void raise(const Status& status);
[[noreturn]] void raise(const Status& status, nb::python_error& cause);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  raise(Status(StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace tilewright::python
