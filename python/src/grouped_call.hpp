// SPDX-License-Identifier: MIT
// grouped_gemm of Python: gemm's arguments, and what groups add.
#pragma once

#include "gemm_call.hpp"

namespace tilewright::python {

nb::object run_grouped(const GemmFunction& function, const GemmArguments& arguments);

}  // namespace tilewright::python
