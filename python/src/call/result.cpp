// SPDX-License-Identifier: MIT
#include "call/result.hpp"

#include <algorithm>

#include "call/epilogue_arguments.hpp"
#include "python_function.hpp"
#include "tensor/buffer.hpp"

namespace tilewright::python {
namespace {

bool is_output_dtype(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

// A dtype by tilewright's name ("bf16"), or any framework's own, whose text ends in a common one ("torch.bfloat16").
DType parse_out_dtype(const char* op, nb::handle value, DType a) {
  if (value.is_none()) return a == DType::kI8 ? DType::kF32 : dtype_bits(a) <= 8 ? DType::kBf16 : a;
  static constinit PythonFunction name_of(kFrameworks, "dtype_name");
  const auto text = nb::cast<std::string>(name_of.get()(value));
  constexpr std::pair<std::string_view, DType> kNames[] = {{"float32", DType::kF32}, {"f32", DType::kF32},
                                                           {"float16", DType::kF16}, {"f16", DType::kF16},
                                                           {"bf16", DType::kBf16},   {"bfloat16", DType::kBf16}};
  for (const auto& [name, dtype] : kNames) {
    if (text == name) return dtype;
  }
  refuse("{}: argument 'out_dtype' is {}, allowed: float32, float16, bfloat16 (as text or as the framework's dtype)",
         op, printed(value));
}

nb::object checked(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

nb::object tuple_of(const Shape& shape) {
  nb::object sizes = checked(PyTuple_New(shape.rank));
  for (int i = 0; i < shape.rank; ++i) {
    PyTuple_SetItem(sizes.ptr(), i, PyLong_FromLongLong(shape.size[static_cast<size_t>(i)]));
  }
  return sizes;
}

// a.new_empty(shape[, dtype=...]): the device is a's.
nb::object torch_empty(nb::handle a, const nb::object& sizes, DType dtype, bool same_dtype) {
  static const nb::handle kNewEmpty = intern("new_empty");
  if (same_dtype) return checked(PyObject_CallMethodObjArgs(a.ptr(), kNewEmpty.ptr(), sizes.ptr(), nullptr));
  static constinit PythonFunction torch_dtype(kFrameworks, "torch_dtype");
  return a.attr(kNewEmpty)(sizes, nb::arg("dtype") = torch_dtype.get()(dtype_name(dtype)));
}

void use_out(const char* op, const GemmFunction& function, const GemmArguments& arguments, const Shape& shape,
             ParsedGemm& parsed) {
  TensorView& d = parsed.call.d;
  const Access access = function.purpose == Purpose::kDescribe ? Access::kDescribe : Access::kWrite;
  d = import_tensor(op, "out", arguments[kOut], access, parsed.scope).view;
  if (d.rank != shape.rank || !std::equal(d.shape.begin(), d.shape.begin() + d.rank, shape.size.begin())) {
    refuse("{}: argument 'out' has shape [{}], expected [{}]", op,
           fmt::join(d.shape.begin(), d.shape.begin() + d.rank, ", "), fmt::join(shape.span(), ", "));
  }
  if (arguments.given(kOutDtype)) {
    const DType dtype = parse_out_dtype(op, arguments[kOutDtype], parsed.call.a.dtype);
    if (d.dtype != dtype) {
      refuse("{}: arguments 'out' ({}) and 'out_dtype' ({}) differ", op, dtype_name(d.dtype), dtype_name(dtype));
    }
  }
  parsed.result = nb::borrow(arguments[kOut]);
}

}  // namespace

void check_product(const Status& status) {
  if (status.ok()) return;
  constexpr std::string_view kInternal = "'d'";
  std::string message = status.message();
  for (size_t at = message.find(kInternal); at != std::string::npos; at = message.find(kInternal, at)) {
    message.replace(at, kInternal.size(), "'out'");
  }
  raise(Status(status.code(), std::move(message)));
}

void make_result(const GemmFunction& function, const GemmArguments& arguments, const ImportedTensor& a,
                 const Shape& shape, ParsedGemm& parsed) {
  const char* const op = function.name;
  if (arguments.given(kOut)) return use_out(op, function, arguments, shape, parsed);
  GemmCall& call = parsed.call;
  const DType dtype = parse_out_dtype(op, arguments[kOutDtype], call.a.dtype);
  // A dtype that gemm refuses needs no memory to be refused.
  if (function.purpose == Purpose::kDescribe || !is_output_dtype(dtype)) {
    call.d = TensorView::contiguous(nullptr, dtype, shape.span(), call.a.device);
    return;
  }
  parsed.made_result = true;
  const bool jax = a.framework == Framework::kJax;
  if (jax && call.a.device.kind == DeviceKind::kCpu) {
    parsed.result = nb::cast(Buffer(dtype, shape.span()));
  } else if (a.framework == Framework::kTorch && a.plain) {
    parsed.result = torch_empty(arguments[kA], tuple_of(shape), dtype, dtype == call.a.dtype);
  } else {
    static constinit PythonFunction empty(kFrameworks, "empty");
    parsed.result = empty.get()(static_cast<int>(a.framework), arguments[kA], tuple_of(shape), dtype_name(dtype), op);
  }
  // A JAX array of a GPU is written before anybody has seen it; from then on it is as immutable as any other.
  call.d = import_made(op, "out", parsed.result, jax ? Access::kRead : Access::kWrite, parsed.scope).view;
}

}  // namespace tilewright::python
