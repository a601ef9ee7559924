// SPDX-License-Identifier: MIT
// Operators on images, [N, C, ...], as functions of the module.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_image_operators(nanobind::module_& module);

}  // namespace tilewright::python
