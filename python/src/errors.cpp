// SPDX-License-Identifier: MIT
#include "errors.hpp"

namespace tilewright::python {
namespace {

nb::object make_exception(const Status& status) {
  const nb::module_ errors = nb::module_::import_("tilewright._errors");
  const char* type = status.code() == StatusCode::kInvalidArgument ? "InvalidArgument" : "Error";
  return errors.attr(type)(nb::str(status.message().c_str(), status.message().size()), status_code_name(status.code()));
}

}  // namespace

void raise(const Status& status) {
  const nb::object exception = make_exception(status);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

void raise(const Status& status, nb::python_error& cause) {
  const nb::object exception = make_exception(status);
  PyException_SetCause(exception.ptr(), nb::borrow(cause.value()).release().ptr());
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace tilewright::python
