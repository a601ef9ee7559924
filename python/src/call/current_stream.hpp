// SPDX-License-Identifier: MIT
// The stream on which a framework would run a GPU's work now.
#pragma once

#include "tensor/type_traits.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::python {

// Of the framework of a tensor on `device`; null, the legacy default stream, where it has none of
// its own: what such frameworks hand out without a stream is ready there.
void* current_stream(const TypeTraits& traits, DeviceId device);

}  // namespace tilewright::python
