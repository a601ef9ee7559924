// SPDX-License-Identifier: MIT
// The parameters of a function that Python calls, and what one call passed for each. Written for CPython's fast calling
// convention: nanobind's own matching of 17 keywords takes longer than the rest of a call.
#pragma once

#include <span>

#include "errors.hpp"

namespace tilewright::python {

inline constexpr int kMaxParameters = 36;

// A call as CPython passes it (METH_FASTCALL | METH_KEYWORDS).
struct RawCall {
  PyObject* const* arguments;  // by position, then by keyword
  Py_ssize_t positional;       // how many of them by position
  PyObject* keywords;          // tuple of names, or null
};

// A parameter's name, and where its value goes.
struct ParameterName {
  const char* name;
  int slot;
};

class Signature {
 public:
  // The first `required` must be given; the first `positional` may be given by position, the others by keyword only.
  Signature(const char* function, std::span<const ParameterName> parameters, int required, int positional);

  // values[slot] is what was passed for the parameter (borrowed), or null. Throws Python's TypeError for a call that
  // does not fit.
  void bind(const RawCall& call, std::span<PyObject*> values) const;

 private:
  int find(PyObject* keyword, int guess) const;
  [[noreturn]] void refuse_missing(std::span<PyObject*> values) const;

  const char* function_;
  int count_, required_, positional_;
  PyObject* names_[kMaxParameters] = {};  // interned; never freed
  size_t slots_[kMaxParameters] = {};
};

// Runs `body` and turns what it throws into a Python exception; null then.
template <class Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return body().release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace tilewright::python
