// SPDX-License-Identifier: MIT
#include "tensor/tensor_import.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "python_function.hpp"

namespace tilewright::python {
namespace {

// One tensor of a call. What the functions below return borrows from `object`, or from what `scope` keeps alive.
struct Argument {
  const char* op;
  const char* name;
  nb::handle object;
  Access access;
  ImportScope& scope;
};

std::string qualified_name(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__qualname__")));
}

[[noreturn]] void refuse_from(nb::python_error& error, const Argument& argument) {
  raise(Status(StatusCode::kInvalidArgument,
               fmt::format("{}: argument '{}' ({}) cannot be exported through DLPack: {}", argument.op, argument.name,
                           qualified_name(argument.object), nb::cast<std::string>(nb::str(error.value())))),
        error);
}

[[noreturn]] void refuse_read_only(const Argument& argument) {
  refuse("{}: argument '{}' is read-only", argument.op, argument.name);
}

void check_version(const Argument& argument, const DlpackVersion& version) {
  if (version.major == kDlpackVersion.major) return;
  refuse("{}: argument '{}' speaks DLPack {}.{}, allowed: 1.x", argument.op, argument.name, version.major,
         version.minor);
}

// ---- Capsules --------------------------------------------------------------------------------------------------------

// What object.__dlpack__() gives, or nothing with the Python exception set. Asked without max_version every exporter
// answers, and NumPy fastest.
nb::object call_dlpack(nb::handle object, bool versioned) {
  static const nb::handle kDlpack = intern("__dlpack__");
  if (!versioned) return nb::steal(PyObject_CallMethodObjArgs(object.ptr(), kDlpack.ptr(), nullptr));
  const nb::object method = nb::steal(PyObject_GetAttr(object.ptr(), kDlpack.ptr()));
  if (!method.is_valid()) return {};
  nb::dict options;
  options["max_version"] = nb::make_tuple(kDlpackVersion.major, kDlpackVersion.minor);
  return nb::steal(PyObject_Call(method.ptr(), nb::tuple().ptr(), options.ptr()));
}

// Inputs take the old capsule where they can get it; read-only ones come versioned only. Outputs ask for the versioned
// one, which says whether it may be written.
nb::object capsule_of(const Argument& argument) {
  const bool versioned_first = argument.access == Access::kWrite;
  nb::object capsule = call_dlpack(argument.object, versioned_first);
  if (capsule.is_valid()) return capsule;
  nb::python_error first;  // takes the exception
  capsule = call_dlpack(argument.object, !versioned_first);
  if (capsule.is_valid()) return capsule;
  PyErr_Clear();
  refuse_from(first, argument);
}

// The capsule is left unconsumed: it frees itself when the call drops it.
TwDLTensor read_capsule(const Argument& argument, nb::object capsule) {
  TwDLTensor tensor{};
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedCapsule)) {
    const auto* managed =
        static_cast<const DlpackManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedCapsule));
    check_version(argument, managed->version);
    if (argument.access == Access::kWrite && (managed->flags & kDlpackReadOnly) != 0) refuse_read_only(argument);
    tensor = managed->tensor;
  } else if (PyCapsule_IsValid(capsule.ptr(), kLegacyCapsule)) {
    tensor = static_cast<const DlpackManaged*>(PyCapsule_GetPointer(capsule.ptr(), kLegacyCapsule))->tensor;
  } else {
    refuse("{}: argument '{}': its __dlpack__() returned no DLPack capsule", argument.op, argument.name);
  }
  argument.scope.kept_alive.push_back(std::move(capsule));
  return tensor;
}

// ---- The exchange table: no Python call ------------------------------------------------------------------------------

// What a framework's function failed with; it should have set an exception.
[[noreturn]] void refuse_exchange(const Argument& argument) {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_BufferError, "the framework gave no reason");
  nb::python_error error;
  refuse_from(error, argument);
}

TwDLTensor read_borrowed(const Argument& argument, const DlpackExchange& exchange) {
  TwDLTensor tensor{};
  if (exchange.tensor_from_object(argument.object.ptr(), &tensor) != 0) refuse_exchange(argument);
  return tensor;
}

// Only a managed tensor says whether it may be written.
void check_writable(const Argument& argument, const DlpackExchange& exchange) {
  DlpackManagedVersioned* managed = nullptr;
  if (exchange.managed_from_object(argument.object.ptr(), &managed) != 0) refuse_exchange(argument);
  const DlpackVersion version = managed->version;
  const bool read_only = (managed->flags & kDlpackReadOnly) != 0;
  if (managed->deleter != nullptr) managed->deleter(managed);
  check_version(argument, version);
  if (read_only) refuse_read_only(argument);
}

TwDLTensor read_other(const Argument& argument, const TypeTraits& traits) {
  if (traits.exchange == nullptr) return read_capsule(argument, capsule_of(argument));
  if (argument.access == Access::kWrite) check_writable(argument, *traits.exchange);
  return read_borrowed(argument, *traits.exchange);
}

// ---- PyTorch ---------------------------------------------------------------------------------------------------------

bool grad_enabled(ImportScope& scope) {
  using Grad = ImportScope::Grad;
  if (scope.grad == Grad::kUnknown) {
    static constinit PythonFunction is_grad_enabled("torch", "is_grad_enabled");
    const nb::object enabled = nb::steal(PyObject_CallObject(is_grad_enabled.get().ptr(), nullptr));
    if (!enabled.is_valid()) throw nb::python_error();
    scope.grad = enabled.ptr() == Py_False ? Grad::kOff : Grad::kOn;
  }
  return scope.grad == Grad::kOn;
}

bool in_forward_mode(ImportScope& scope) {
  using Grad = ImportScope::Grad;
  if (scope.forward_mode == Grad::kUnknown) {
    static const nb::handle kLevel = intern("_current_level");
    static constinit PythonFunction forward_ad("torch.autograd", "forward_ad");
    scope.forward_mode = nb::cast<int>(forward_ad.get().attr(kLevel)) < 0 ? Grad::kOff : Grad::kOn;
  }
  return scope.forward_mode == Grad::kOn;
}

// A derivative that forward mode would carry on is silently zero here.
void refuse_tangent(const Argument& argument) {
  static constinit PythonFunction has_tangent(kFrameworks, "has_tangent");
  if (!nb::cast<bool>(has_tangent.get()(argument.object))) return;
  refuse("{}: argument '{}' has a tangent, and there are no derivatives in forward mode", argument.op, argument.name);
}

// Lets autograd notice that a tensor which it may have kept for a backward pass has new values, as PyTorch's own out=
// does. An inference tensor has no version to count.
void mark_changed(nb::handle tensor) {
  static constinit PythonFunction increment("torch.autograd.graph", "increment_version");
  const nb::object done = nb::steal(PyObject_CallFunctionObjArgs(increment.get().ptr(), tensor.ptr(), nullptr));
  if (done.is_valid()) return;
  nb::python_error error;  // takes the exception
  if (!nb::cast<bool>(tensor.attr("is_inference")())) throw error;
}

// A tensor that autograd would record silently loses its gradient here.
void refuse_recorded(const Argument& argument) {
  static const nb::handle kRequiresGrad = intern("requires_grad");
  if (nb::object(argument.object.attr(kRequiresGrad)).is(nb::handle(Py_False))) return;
  refuse(
      "{}: argument '{}' requires grad, and tilewright.{} records no gradient: pass {}.detach(), or call under "
      "torch.no_grad(); gemm and linear of tilewright.torch record one",
      argument.op, argument.name, argument.op, argument.name);
}

void check_autograd(const Argument& argument) {
  if (argument.access == Access::kDescribe) return;
  if (argument.scope.autograd_decided && argument.access == Access::kRead) return;
  if (!argument.scope.autograd_decided && in_forward_mode(argument.scope)) refuse_tangent(argument);
  if (!grad_enabled(argument.scope)) return;
  if (!argument.scope.autograd_decided) refuse_recorded(argument);
  if (argument.access == Access::kWrite) mark_changed(argument.object);
}

// The lazily negated view that .imag of a conjugate is; it has no DLPack form, yet torch exports it. Its strides are
// even, which ordinary last dimensions are not: others are not asked.
void check_negation(const Argument& argument, const TwDLTensor& tensor) {
  if (tensor.ndim == 0 || tensor.dtype.code != TW_DL_FLOAT || tensor.dtype.bits != 32) return;
  if (tensor.strides == nullptr || tensor.strides[tensor.ndim - 1] % 2 != 0) return;
  if (!nb::cast<bool>(argument.object.attr("is_neg")())) return;
  refuse("{}: argument '{}' is a lazily negated view: pass {}.resolve_neg()", argument.op, argument.name,
         argument.name);
}

TwDLTensor read_torch(const Argument& argument, const TypeTraits& traits) {
  check_autograd(argument);
  TwDLTensor tensor{};
  if (traits.exchange != nullptr) {
    tensor = read_borrowed(argument, *traits.exchange);
  } else {
    // __dlpack__ refuses what requires grad even where nothing is recorded.
    const nb::object detached = argument.object.attr("detach")();
    const Argument exported = {argument.op, argument.name, detached, argument.access, argument.scope};
    tensor = read_capsule(exported, capsule_of(exported));
  }
  check_negation(argument, tensor);
  return tensor;
}

// ---- NumPy and JAX ---------------------------------------------------------------------------------------------------

// What NumPy has from the package ml_dtypes only, and the type of its own that has as many bytes.
struct BorrowedType {
  std::string_view name;
  const char* bytes;
  uint8_t code;
};
constexpr BorrowedType kMlDtypes[] = {{"bfloat16", "uint16", TW_DL_BFLOAT},
                                      {"float8_e4m3fn", "uint8", TW_DL_FLOAT8_E4M3FN},
                                      {"float8_e5m2", "uint8", TW_DL_FLOAT8_E5M2}};

// NumPy refuses to export what is read-only without a version, and ml_dtypes' types always: the same memory goes as plain
// bytes, under its own name.
TwDLTensor read_numpy(const Argument& argument) {
  const nb::handle array = argument.object;
  nb::object capsule = call_dlpack(array, /*versioned=*/false);
  if (capsule.is_valid()) return read_capsule(argument, std::move(capsule));
  nb::python_error error;  // takes the exception
  if (argument.access == Access::kWrite && !nb::cast<bool>(array.attr("flags").attr("writeable"))) {
    refuse_read_only(argument);
  }
  const nb::object dtype = array.attr("dtype");
  const auto name = nb::cast<std::string>(nb::str(dtype));
  const auto* const borrowed =
      std::find_if(std::begin(kMlDtypes), std::end(kMlDtypes), [&](const BorrowedType& t) { return t.name == name; });
  const bool found = borrowed != std::end(kMlDtypes);
  const nb::object exported = found ? nb::object(array.attr("view")(borrowed->bytes)) : nb::borrow(array);
  capsule = call_dlpack(exported, /*versioned=*/argument.access != Access::kWrite);
  // Before 2.1 NumPy knows no versions.
  if (!capsule.is_valid() && found) {
    PyErr_Clear();
    capsule = call_dlpack(exported, /*versioned=*/false);
  }
  if (capsule.is_valid()) {
    TwDLTensor tensor = read_capsule(argument, std::move(capsule));
    if (found) tensor.dtype.code = borrowed->code;
    return tensor;
  }
  PyErr_Clear();
  refuse(
      "{}: argument '{}' has NumPy dtype {}, allowed: float32, float16, int8, and bfloat16, "
      "float8_e4m3fn, float8_e5m2 of ml_dtypes ({})",
      argument.op, argument.name, name, nb::cast<std::string>(nb::str(error.value())));
}

TwDLTensor read_jax(const Argument& argument) {
  if (argument.access == Access::kWrite) {
    refuse("{}: argument '{}' is a JAX array, which is immutable: leave it out and take the result", argument.op,
           argument.name);
  }
  // Computed asynchronously: wait for the values. A tracer has none.
  const nb::object wait = nb::getattr(argument.object, "block_until_ready", nb::none());
  if (wait.is_none()) {
    refuse("{}: argument '{}' is traced by JAX: call tilewright.{} outside of jax.jit, or through jax.pure_callback",
           argument.op, argument.name, argument.op);
  }
  if (argument.access == Access::kRead) wait();
  return read_capsule(argument, capsule_of(argument));
}

TwDLTensor read_tensor(const Argument& argument, const TypeTraits& traits) {
  if (!traits.tensor) {
    refuse("{}: argument '{}' is {}, allowed: a tensor of PyTorch, NumPy or JAX, or any object with __dlpack__",
           argument.op, argument.name, qualified_name(argument.object));
  }
  switch (traits.framework) {
    case Framework::kTorch: return read_torch(argument, traits);
    case Framework::kNumpy: return read_numpy(argument);
    case Framework::kJax: return read_jax(argument);
    case Framework::kOther: break;
  }
  return read_other(argument, traits);
}

}  // namespace

namespace {

// Bytes as elements of four bits: the dimension along which they are neighbours has twice as many, or one less.
bool split_bytes(const NibbleShape& want, TensorView& view) {
  int along = -1;
  const int64_t sizes[2] = {want.rows, want.columns};
  for (int i = 0; i < 2; ++i) {
    const int d = view.rank - 2 + i, other = view.rank - 1 - i;
    const bool neighbours = view.stride[d] == 1 || view.shape[d] == 1;
    if (neighbours && view.shape[d] == (sizes[i] + 1) / 2 && view.shape[other] == sizes[1 - i]) along = d;
  }
  if (along < 0) return false;
  view.shape[along] = sizes[along - (view.rank - 2)];
  for (int i = 0; i < view.rank; ++i) {
    if (i != along) view.stride[i] *= 2;
  }
  view.stride[along] = 1;
  return true;
}

// Along which dimension pairs lie whose last one has stride 1, or whose last but one makes `depth`; -1: as strides say.
int pair_dimension(const TwDLTensor& tensor, int64_t depth) {
  const int last = tensor.ndim - 1;
  if (tensor.dtype.bits != 4 || tensor.dtype.lanes != 2 || last < 0 || tensor.shape == nullptr) return -1;
  if (last > 0 && depth >= 0 && depth % 2 == 0 && tensor.shape[last - 1] == depth / 2) {
    const int64_t stride = tensor.strides != nullptr ? tensor.strides[last - 1] : tensor.shape[last];
    if (stride == 1 || tensor.shape[last - 1] == 1) return last - 1;
  }
  return tensor.strides == nullptr || tensor.strides[last] == 1 ? last : -1;
}

bool is_bytes(const TwDLTensor& tensor) {
  return tensor.dtype.code == TW_DL_UINT && tensor.dtype.bits == 8 && tensor.dtype.lanes == 1;
}

}  // namespace

ImportedTensor import_nibbles(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope,
                              const NibbleShape& shape) {
  const TypeTraits& traits = traits_of(object);
  TwDLTensor tensor = read_tensor({op, name, object, access, scope}, traits);
  const bool pairs = shape.nibbles != DType::kNone && is_bytes(tensor), sized = shape.rows >= 0;
  if (pairs) {
    tensor.dtype = {static_cast<uint8_t>(shape.nibbles == DType::kI4 ? TW_DL_INT : TW_DL_UINT), 4,
                    static_cast<uint16_t>(sized ? 1 : 2)};
  }
  const bool absent = tensor.data == nullptr && access == Access::kDescribe;
  if (absent) tensor.data = &tensor;  // never read
  Result<TensorView> view = from_dlpack(tensor, pair_dimension(tensor, shape.depth));
  if (!view) {
    const Status& why = view.status();
    raise(Status(why.code(), fmt::format("{}: argument '{}': {}", op, name, why.message())));
  }
  if (absent) view->data = nullptr;
  if (pairs && sized && (view->rank < 2 || !split_bytes(shape, *view))) {
    refuse("{}: argument '{}' has shape [{}] of bytes, expected pairs of {} that make [{}, {}]", op, name,
           fmt::join(view->shape.begin(), view->shape.begin() + view->rank, ", "), dtype_name(shape.nibbles),
           shape.rows, shape.columns);
  }
  return {*view, traits.framework, traits.plain};
}

ImportedTensor import_tensor(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope) {
  return import_nibbles(op, name, object, access, scope, {});
}

ImportedTensor import_made(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope) {
  // Of this tensor alone: others that are imported behind it are asked.
  const ImportScope::Grad found = std::exchange(scope.grad, ImportScope::Grad::kOff);
  ImportedTensor imported = import_tensor(op, name, object, access, scope);
  scope.grad = found;
  return imported;
}

DType parse_nibbles(const char* op, nb::handle b_dtype) {
  if (b_dtype.is_none()) return DType::kNone;
  std::string_view text;
  if (nb::try_cast(b_dtype, text) && text == "i4") return DType::kI4;
  if (nb::try_cast(b_dtype, text) && text == "u4") return DType::kU4;
  refuse("{}: argument 'b_dtype' is {}, allowed: None, 'i4', 'u4' (of a uint8 tensor, two a byte)", op,
         nb::cast<std::string>(nb::repr(b_dtype)));
}

ImportedTensor import_weight(const char* op, const char* name, nb::handle object, nb::handle b_dtype, Access access,
                             ImportScope& scope, int64_t depth) {
  const NibbleShape shape{.nibbles = parse_nibbles(op, b_dtype), .depth = depth};
  const ImportedTensor weight = import_nibbles(op, name, object, access, scope, shape);
  if (shape.nibbles != DType::kNone && weight.view.dtype != shape.nibbles) {
    refuse("{}: argument 'b_dtype' is {}, and '{}' is {}, allowed: uint8", op, dtype_name(shape.nibbles), name,
           dtype_name(weight.view.dtype));
  }
  return weight;
}

ImportedBytes import_bytes(const char* op, const char* name, nb::handle object, Access access, ImportScope& scope) {
  const TwDLTensor tensor = read_tensor({op, name, object, access, scope}, traits_of(object));
  const bool bytes = tensor.dtype.code == TW_DL_UINT && tensor.dtype.bits == 8 && tensor.dtype.lanes == 1 &&
                     tensor.ndim == 1 && (tensor.strides == nullptr || tensor.strides[0] == 1 || tensor.shape[0] < 2);
  if (!bytes) {
    refuse("{}: argument '{}' is no packed weight, allowed: a contiguous uint8 vector", op, name);
  }
  // The device as any tensor's.
  int64_t shape[] = {tensor.shape[0]};
  const TensorView view = value_of(
      from_dlpack(TwDLTensor{tensor.data, tensor.device, 1, {TW_DL_INT, 8, 1}, shape, nullptr, tensor.byte_offset}));
  return {view.data, view.shape[0], view.device};
}

}  // namespace tilewright::python
