// SPDX-License-Identifier: MIT
// Gradients of row operators as functions of the module.
#pragma once

#include "errors.hpp"

namespace tilewright::python {

void bind_backward_operators(nb::module_& module);

}  // namespace tilewright::python
