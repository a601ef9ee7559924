// SPDX-License-Identifier: MIT
// From a tensor of any framework to a TensorView, without a copy.
#pragma once

#include <vector>

#include "errors.hpp"
#include "tensor/type_traits.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::python {

enum class Access : uint8_t {
  kRead,
  kWrite,
  kDescribe,  // shape, strides and dtype only: the address may be missing
};

struct ImportedTensor {
  TensorView view;
  Framework framework = Framework::kOther;
  bool plain = false;  // of the framework's own type
};

// What one call needs of the tensors it has imported.
struct ImportScope {
  enum class Grad : uint8_t { kUnknown, kOff, kOn };
  std::vector<nb::object> kept_alive;  // what views point into
  Grad grad = Grad::kUnknown;          // torch.is_grad_enabled()
  Grad forward_mode = Grad::kUnknown;  // whether tensors may have tangents
  bool autograd_decided = false;       // of a torch operator: its autograd kernel ran before
};

// `name` is the argument's, for messages. Refuses what has no DLPack form, what a view cannot express, tensors that
// autograd records, and, to write, read-only memory.
ImportedTensor import_tensor(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope);

// The same of a tensor that this call has made: autograd has seen nothing of it.
ImportedTensor import_made(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope);

// The same where bytes (uint8) hold two elements of `nibbles` each, i4 or u4, the even one in the low nibble: neighbours along
// the dimension of stride 1. kNone: as above. `columns` and `rows`, where not -1, are the sizes that the last two dimensions
// have: they tell along which one the pairs lie, and that a last one may be half used. Where two dimensions have stride 1 pairs
// lie along the last, or along the one before, where that makes `depth` of it.
struct NibbleShape {
  DType nibbles = DType::kNone;
  int64_t rows = -1, columns = -1;
  int64_t depth = -1;
};
ImportedTensor import_nibbles(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope,
                              const NibbleShape& shape);

// What `b_dtype`, None, "i4" or "u4", says.
DType parse_nibbles(const char* op, nb::handle b_dtype);
// Weights, of which `b_dtype`, None, "i4" or "u4", says what bytes hold; `depth`: the K of [K, N], where it is known.
ImportedTensor import_weight(const char* op, const char* name, nb::handle object, nb::handle b_dtype, Access access,
                             ImportScope& scope, int64_t depth = -1);

// The memory of a contiguous uint8 vector.
struct ImportedBytes {
  void* data;
  int64_t size;
  DeviceId device;
};
ImportedBytes import_bytes(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope);

}  // namespace tilewright::python
