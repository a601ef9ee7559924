// SPDX-License-Identifier: MIT
// Packed weights as a Python object: gemm's b, and what is saved and loaded.
#pragma once

#include <cstddef>
#include <memory>

#include "errors.hpp"
#include "tensor/tensor_import.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::python {

class PackedWeights {
 public:
  // `data`, of the view's device, begins with the header; `owner` keeps it alive.
  PackedWeights(TensorView view, const void* data, int64_t bytes, std::shared_ptr<void> owner)
      : view_(view), data_(data), bytes_(bytes), owner_(std::move(owner)) {}

  const TensorView& view() const { return view_; }
  const void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int64_t k() const { return view_.shape[view_.rank - 2]; }
  int64_t n() const { return view_.shape[view_.rank - 1]; }
  int64_t batch() const { return view_.rank == 3 ? view_.shape[0] : 1; }

 private:
  TensorView view_;
  const void* data_;
  int64_t bytes_;
  std::shared_ptr<void> owner_;
};

// What a 64-byte aligned uint8 vector holds. On a GPU no call reads its header: it is then what these sizes say.
struct PackedSizes {
  DType dtype;
  int64_t n, k, batch;
};
TensorView packed_bytes_view(const char* op, const char* name, nb::handle tensor, const PackedSizes& sizes,
                             ImportScope& scope);

// The packed weights that `object` is, or null.
const PackedWeights* packed_weights_of(nb::handle object);

void bind_packed_weights(nb::module_& module);

}  // namespace tilewright::python
