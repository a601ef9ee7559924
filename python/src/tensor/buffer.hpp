// SPDX-License-Identifier: MIT
// Aligned memory that Python owns: outputs for frameworks that take them over through DLPack, and packed weights.
#pragma once

#include <cstddef>
#include <memory>

#include "errors.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::python {

inline constexpr size_t kBufferAlignment = 64;

// 64-byte aligned bytes; shared, because a DLPack consumer may outlive the Python object.
std::shared_ptr<std::byte> allocate_aligned(int64_t bytes);

// A contiguous tensor of the CPU with __dlpack__.
class Buffer {
 public:
  Buffer(DType dtype, std::span<const int64_t> shape);
  const TensorView& view() const { return view_; }

 private:
  std::shared_ptr<std::byte> memory_;
  TensorView view_;
  friend nb::capsule export_buffer(const Buffer&);
};

void bind_buffer(nb::module_& module);

}  // namespace tilewright::python
