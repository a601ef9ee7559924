// SPDX-License-Identifier: MIT
// Operators on rows of logits as functions of the module.
#pragma once

#include "errors.hpp"

namespace tilewright::python {

void bind_logit_operators(nb::module_& module);

}  // namespace tilewright::python
