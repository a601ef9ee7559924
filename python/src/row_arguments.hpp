// SPDX-License-Identifier: MIT
// What a call of a row operator imports and makes.
#pragma once

#include <array>

#include "python_function.hpp"
#include "tensor/tensor_import.hpp"
#include "tile/common/quantise.hpp"
#include "tile/common/row_rotation.hpp"
#include "tilewright/context.hpp"

namespace tilewright::python {

// str(value)
std::string printed_value(nb::handle value);

// An enumerator, one of the first `count`, by its name; None: `otherwise`.
template <class Enum>
Enum named(const char* op, const char* argument, nb::handle value, Enum otherwise, int count = enum_count(Enum{})) {
  if (value.is_none()) return otherwise;
  std::string allowed;
  std::string_view text;
  const bool is_text = nb::try_cast(value, text);
  for (int i = 0; i < count; ++i) {
    const char* const name = enum_names(Enum{})[i];
    if (is_text && text == name) return static_cast<Enum>(i);
    allowed += fmt::format("{}'{}'", i == 0 ? "" : ", ", name);
  }
  refuse("{}: argument '{}' is {}, allowed: {}", op, argument, printed_value(value), allowed);
}

// Pairs of each axis of rope's positions; None: of one.
std::array<int64_t, kRopeAxes> section_pairs(const char* op, nb::handle value);

// Of a result, with the keyword that asked for it, null where nobody did.
struct ResultDtype {
  DType dtype;
  const char* keyword;
  ResultDtype(DType type, const char* asked_by = nullptr) : dtype(type), keyword(asked_by) {}
};

struct RowArguments {
  const char* op;
  nb::handle x;
  ImportedTensor input;
  ImportScope scope;
  Exec exec;

  // `argument`: what the function calls `tensor`.
  RowArguments(const char* name, nb::handle tensor, int units, bool programmatic_edge, const char* argument = "x");

  TensorView optional(const char* name, nb::handle value, Access access = Access::kRead);
  // Numbers of i32; of i64 their low words.
  TensorView indices(const char* name, nb::handle value);
  // Numbers of i32, or the words of i64.
  TensorView numbers(const char* name, nb::handle value, Access access = Access::kRead);
  // `given`, or a new tensor of x's framework: x's shape with another last size, -1 = its own; 0 = none.
  TensorView result(const char* name, nb::object& given, ResultDtype dtype, int64_t last);
  // One f32 that is written: `given`, or a new tensor.
  TensorView number(const char* name, nb::object& given);
  // A gradient of so many sums: True makes it, False leaves it out, and a tensor is written.
  TensorView gradient(const char* name, nb::object& given, DType dtype, int64_t size);
  // Of that shape: `given`, or new.
  TensorView made(const char* name, nb::object& given, DType dtype, const nb::list& shape);
  // The same; a given one has the dtype that was asked for.
  TensorView made(const char* name, nb::object& given, ResultDtype dtype, const nb::list& shape);
  // The scale of an output with rows of `n` elements: `given`, or where the operator finds it a new tensor.
  TensorView scale(nb::object& given, Quantisation quant, nb::handle scale_dtype, int64_t& group, int64_t n);
};

inline bool finds_scale(Quantisation quant) { return quant != Quantisation::kNone && quant != Quantisation::kTensor; }

// The eps of a norm, as PyTorch has it: of rms_norm the machine epsilon of x's dtype.
float default_eps(std::string_view op, DType x);

// A dtype by any of its names, of the argument `keyword`; None: `otherwise`.
ResultDtype output_dtype(const char* op, nb::handle value, DType otherwise, const char* keyword = "out_dtype");

}  // namespace tilewright::python
