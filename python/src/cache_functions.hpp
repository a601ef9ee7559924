// SPDX-License-Identifier: MIT
// Operators on the paged KV cache as Python functions.
#pragma once

#include "errors.hpp"

namespace tilewright::python {

void bind_cache_operators(nb::module_& module);

}  // namespace tilewright::python
