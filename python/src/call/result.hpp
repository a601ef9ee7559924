// SPDX-License-Identifier: MIT
// Where a call's result goes: `out`, or a new tensor of the framework that the first argument belongs to.
#pragma once

#include "gemm_call.hpp"
#include "tensor/broadcast.hpp"

namespace tilewright::python {

// Sets call.d, and in `parsed` what the caller gets.
void make_result(const GemmFunction& function, const GemmArguments& arguments, const ImportedTensor& a,
                 const Shape& shape, ParsedGemm& parsed);

// Raises what a product was refused with: in Python its result is called `out`.
void check_product(const Status& status);

}  // namespace tilewright::python
