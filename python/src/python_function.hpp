// SPDX-License-Identifier: MIT
// A function that stands in a Python module, looked up at its first use.
#pragma once

#include "errors.hpp"

namespace tilewright::python {

// To be made static and constinit. A C++ static that imports would hold its guard while Python runs other threads, and one
// of those would wait for the guard with the interpreter lock in its hands; here two may both look it up, and one wins.
class PythonFunction {
 public:
  constexpr PythonFunction(const char* module, const char* name) : module_(module), name_(name) {}

  nb::handle get() {
    if (function_ == nullptr) {
      nb::object found = nb::module_::import_(module_).attr(name_);
      if (function_ == nullptr) function_ = found.release().ptr();  // never freed
    }
    return function_;
  }

 private:
  const char* module_;
  const char* name_;
  PyObject* function_ = nullptr;
};

inline constexpr const char* kFrameworks = "tilewright._frameworks";

}  // namespace tilewright::python
