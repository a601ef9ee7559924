// SPDX-License-Identifier: MIT
// Row operators as functions of the module.
#pragma once

#include "errors.hpp"

namespace tilewright::python {

void bind_row_operators(nb::module_& module);

}  // namespace tilewright::python
