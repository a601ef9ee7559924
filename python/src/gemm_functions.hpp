// SPDX-License-Identifier: MIT
// gemm, linear, prepare, query and explain as functions of the module, and what the torch operators call.
#pragma once

#include "errors.hpp"

namespace tilewright::python {

void bind_gemm(nb::module_& module);

}  // namespace tilewright::python
