// SPDX-License-Identifier: MIT
#include "call/signature.hpp"

#include <algorithm>

namespace tilewright::python {

Signature::Signature(const char* function, std::span<const ParameterName> parameters, int required, int positional)
    : function_(function), count_(static_cast<int>(parameters.size())), required_(required), positional_(positional) {
  for (int i = 0; i < count_; ++i) {
    const auto& [name, slot] = parameters[static_cast<size_t>(i)];
    names_[i] = PyUnicode_InternFromString(name);
    slots_[i] = static_cast<size_t>(slot);
  }
}

// Keywords written in a program are interned: one pointer to compare, and most calls give them in the order of the
// signature.
int Signature::find(PyObject* keyword, int guess) const {
  for (int i = guess; i < count_; ++i) {
    if (names_[i] == keyword) return i;
  }
  for (int i = 0; i < guess; ++i) {
    if (names_[i] == keyword) return i;
  }
  for (int i = 0; i < count_; ++i) {
    if (PyUnicode_Compare(names_[i], keyword) == 0) return i;
  }
  return -1;
}

void Signature::refuse_missing(std::span<PyObject*> values) const {
  for (int i = 0; i < required_; ++i) {
    if (values[slots_[i]] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "%s() missing required argument '%U'", function_, names_[i]);
    break;
  }
  throw nb::python_error();
}

void Signature::bind(const RawCall& call, std::span<PyObject*> values) const {
  if (call.positional > positional_) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", function_, positional_,
                 call.positional);
    throw nb::python_error();
  }
  std::fill(values.begin(), values.end(), nullptr);
  for (Py_ssize_t i = 0; i < call.positional; ++i) values[slots_[i]] = call.arguments[i];
  const Py_ssize_t keywords = call.keywords == nullptr ? 0 : PyTuple_Size(call.keywords);
  int guess = static_cast<int>(call.positional);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject* const keyword = PyTuple_GetItem(call.keywords, i);
    const int at = find(keyword, guess);
    if (at < 0) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function_, keyword);
      throw nb::python_error();
    }
    PyObject*& value = values[slots_[at]];
    if (value != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function_, keyword);
      throw nb::python_error();
    }
    value = call.arguments[call.positional + i];
    guess = at + 1;
  }
  for (int i = 0; i < required_; ++i) {
    if (values[slots_[i]] == nullptr) refuse_missing(values);
  }
}

}  // namespace tilewright::python
