// SPDX-License-Identifier: MIT
// What the parts of one call cost, measured inside the module: what bench/call_overhead.py prints.
#pragma once

#include "gemm_call.hpp"

namespace tilewright::python {

// Nanoseconds by part, as a dict: "bind" (keywords to parameters), "tensors" (parameters to a GemmCall), "gemm" (the
// C++ call up to its kernel), "kernel", "interpreter" (giving the lock away and taking it back; small calls do not).
// The fastest of many short rounds: whatever else the machine does only adds to it.
nb::object time_call_parts(const GemmFunction& function, const Signature& signature, const RawCall& call);

}  // namespace tilewright::python
