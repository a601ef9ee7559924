// SPDX-License-Identifier: MIT
#include "call/current_stream.hpp"

#include "python_function.hpp"

namespace tilewright::python {

void* current_stream(const TypeTraits& traits, DeviceId device) {
  if (traits.exchange != nullptr && traits.exchange->current_stream != nullptr) {
    void* stream = nullptr;
    const int32_t type = device.kind == DeviceKind::kCuda ? TW_DL_CUDA : TW_DL_ROCM;
    if (traits.exchange->current_stream(type, device.index, &stream) == 0) return stream;
    throw nb::python_error();
  }
  if (traits.framework != Framework::kTorch) return nullptr;
  static constinit PythonFunction torch_stream(kFrameworks, "torch_stream");
  return reinterpret_cast<void*>(nb::cast<uintptr_t>(torch_stream.get()(device.index)));
}

}  // namespace tilewright::python
