// SPDX-License-Identifier: MIT
// Weights of checkpoints and other libraries as Python functions: import_weights and export_weights.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_stored_weights(nanobind::module_& module);

}  // namespace tilewright::python
