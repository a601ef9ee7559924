// SPDX-License-Identifier: MIT
// From a tensor of any framework to a TensorView, without a copy.
#pragma once

#include <vector>

#include "errors.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::python {

// Whose tensor it is; tilewright/_frameworks.py has the same numbers.
enum class Framework : uint8_t { kOther = 0, kTorch = 1, kNumpy = 2, kJax = 3 };

enum class Access : uint8_t {
  kRead,
  kWrite,
  kDescribe,  // shape, strides and dtype only: the address may be missing
};

struct ImportedTensor {
  TensorView view;
  Framework framework = Framework::kOther;
};

// Keeps alive what views point into, for the length of a call.
using Keepers = std::vector<nb::object>;

// `name` is the argument's, for messages. Refuses what has no DLPack form, what a view cannot express, tensors that
// autograd records, and, to write, read-only memory.
ImportedTensor import_tensor(const char* op, const char* name, nb::handle object, Access access, Keepers& keepers);

}  // namespace tilewright::python
