// SPDX-License-Identifier: MIT
#include "tensor/tensor_import.hpp"

#include <unordered_map>

#include "tensor/dlpack_exchange.hpp"

namespace tilewright::python {
namespace {

// What is known of a Python type; asked once a type.
struct TypeTraits {
  Framework framework = Framework::kOther;
  const DlpackExchange* exchange = nullptr;
  bool tensor = false;
};

const DlpackExchange* find_exchange(nb::handle type) {
  const nb::object capsule = nb::getattr(type, kExchangeAttribute, nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), kExchangeCapsule)) return nullptr;
  const auto* header = static_cast<const DlpackExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), kExchangeCapsule));
  while (header != nullptr && header->version.major != kDlpackVersion.major) header = header->previous;
  const auto* exchange = reinterpret_cast<const DlpackExchange*>(header);
  return exchange != nullptr && exchange->tensor_from_object != nullptr ? exchange : nullptr;
}

// Under the GIL. Types seen are kept alive, so that an address never comes to mean another type.
const TypeTraits& traits_of(nb::handle object) {
  static auto* const kKnown = new std::unordered_map<PyTypeObject*, TypeTraits>();
  PyTypeObject* const address = Py_TYPE(object.ptr());
  if (auto found = kKnown->find(address); found != kKnown->end()) return found->second;
  const nb::handle type = object.type();
  const nb::object answer = nb::module_::import_("tilewright._frameworks").attr("classify")(type);
  TypeTraits traits;
  traits.framework = static_cast<Framework>(nb::cast<int>(answer[0]));
  // Subclasses may change what a tensor means, and do it in __dlpack__.
  if (nb::cast<bool>(answer[1])) traits.exchange = find_exchange(type);
  traits.tensor = nb::cast<bool>(answer[2]);
  type.inc_ref();
  return kKnown->emplace(address, traits).first->second;
}

[[noreturn]] void refuse_from(nb::python_error& error, const char* op, const char* name, nb::handle object) {
  raise(Status(StatusCode::kInvalidArgument,
               fmt::format("{}: argument '{}' ({}) cannot be exported through DLPack: {}", op, name,
                           nb::cast<std::string>(nb::str(object.type().attr("__qualname__"))),
                           nb::cast<std::string>(nb::str(error.value())))),
        error);
}

// An attribute's name, made once: looking one up by characters costs more than the look-up. Never freed.
nb::handle intern(const char* text) { return PyUnicode_InternFromString(text); }

// torch: a tensor that autograd records would silently lose its gradient.
void check_torch(const char* op, const char* name, nb::handle tensor) {
  static const nb::handle kRequiresGrad = intern("requires_grad");
  if (nb::object(tensor.attr(kRequiresGrad)).is(nb::handle(Py_False))) return;
  static const nb::handle kGradEnabled = nb::object(nb::module_::import_("torch").attr("is_grad_enabled")).release();
  if (nb::object(kGradEnabled()).is(nb::handle(Py_False))) return;
  refuse(
      "{}: argument '{}' requires grad, and tilewright.{} records no gradient: pass {}.detach(), or call under "
      "torch.no_grad()",
      op, name, op, name);
}

// The lazily negated view that .imag of a conjugate is; it has no DLPack form, yet torch exports it. Its strides are
// even, which ordinary last dimensions are not: others are not asked.
void check_torch_negation(const char* op, const char* name, nb::handle tensor, const TensorView& view) {
  if (view.rank == 0 || view.stride[view.rank - 1] % 2 != 0 || view.dtype != DType::kF32) return;
  if (!nb::cast<bool>(tensor.attr("is_neg")())) return;
  refuse("{}: argument '{}' is a lazily negated view: pass {}.resolve_neg()", op, name, name);
}

TensorView view_of(const char* op, const char* name, const TwDLTensor& tensor, Access access) {
  TwDLTensor described = tensor;
  const bool absent = tensor.data == nullptr && access == Access::kDescribe;
  if (absent) described.data = &described;  // never read
  Result<TensorView> view = from_dlpack(described);
  if (!view) {
    const Status& why = view.status();
    raise(Status(why.code(), fmt::format("{}: argument '{}': {}", op, name, why.message())));
  }
  if (absent) view->data = nullptr;
  return *view;
}

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
nb::object capsule_of(const char* op, const char* name, nb::handle object, Access access) {
  const bool versioned_first = access == Access::kWrite;
  nb::object capsule = call_dlpack(object, versioned_first);
  if (capsule.is_valid()) return capsule;
  nb::python_error first;  // takes the exception
  capsule = call_dlpack(object, !versioned_first);
  if (capsule.is_valid()) return capsule;
  PyErr_Clear();
  refuse_from(first, op, name, object);
}

// The capsule is left unconsumed: it frees itself when the call drops it.
TensorView read_capsule(const char* op, const char* name, nb::object capsule, Access access, int type_override,
                        Keepers& keepers) {
  TwDLTensor tensor{};
  uint64_t flags = 0;
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedCapsule)) {
    const auto* managed =
        static_cast<const DlpackManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedCapsule));
    if (managed->version.major != kDlpackVersion.major) {
      refuse("{}: argument '{}' speaks DLPack {}.{}, allowed: 1.x", op, name, managed->version.major,
             managed->version.minor);
    }
    tensor = managed->tensor;
    flags = managed->flags;
  } else if (PyCapsule_IsValid(capsule.ptr(), kLegacyCapsule)) {
    tensor = static_cast<const DlpackManaged*>(PyCapsule_GetPointer(capsule.ptr(), kLegacyCapsule))->tensor;
  } else {
    refuse("{}: argument '{}': its __dlpack__() returned no DLPack capsule", op, name);
  }
  if (access == Access::kWrite && (flags & kDlpackReadOnly) != 0) {
    refuse("{}: argument '{}' is read-only", op, name);
  }
  if (type_override >= 0) tensor.dtype.code = static_cast<uint8_t>(type_override);
  const TensorView view = view_of(op, name, tensor, access);
  keepers.push_back(std::move(capsule));
  return view;
}

TensorView import_capsule(const char* op, const char* name, nb::handle object, Access access, Keepers& keepers) {
  return read_capsule(op, name, capsule_of(op, name, object, access), access, -1, keepers);
}

TensorView import_torch(const char* op, const char* name, nb::handle object, const TypeTraits& traits, Access access,
                        Keepers& keepers) {
  check_torch(op, name, object);
  if (traits.exchange == nullptr) {
    // __dlpack__ refuses what requires grad even where nothing is recorded.
    const nb::object detached = object.attr("detach")();
    const TensorView view = import_capsule(op, name, detached, access, keepers);
    check_torch_negation(op, name, object, view);
    return view;
  }
  TwDLTensor tensor{};
  int failed = -1;
  try {
    failed = traits.exchange->tensor_from_object(object.ptr(), &tensor);
    if (failed != 0) throw nb::python_error();
  } catch (nb::python_error& error) {
    refuse_from(error, op, name, object);
  }
  const TensorView view = view_of(op, name, tensor, access);
  check_torch_negation(op, name, object, view);
  return view;
}

// NumPy refuses to export what is read-only without a version, and ml_dtypes' types always. It has no bfloat16: the same
// memory goes as uint16, under its own name.
TensorView import_numpy(const char* op, const char* name, nb::handle array, Access access, Keepers& keepers) {
  nb::object capsule = call_dlpack(array, /*versioned=*/false);
  if (capsule.is_valid()) return read_capsule(op, name, std::move(capsule), access, -1, keepers);
  nb::python_error error;  // takes the exception
  if (access == Access::kWrite && !nb::cast<bool>(array.attr("flags").attr("writeable"))) {
    refuse("{}: argument '{}' is read-only", op, name);
  }
  const nb::object dtype = array.attr("dtype");
  const bool bfloat16 = nb::cast<std::string>(nb::str(dtype)) == "bfloat16";
  const nb::object exported = bfloat16 ? nb::object(array.attr("view")("uint16")) : nb::borrow(array);
  capsule = call_dlpack(exported, /*versioned=*/access != Access::kWrite);
  // Before 2.1 NumPy knows no versions.
  if (!capsule.is_valid() && bfloat16) {
    PyErr_Clear();
    capsule = call_dlpack(exported, /*versioned=*/false);
  }
  if (capsule.is_valid()) {
    return read_capsule(op, name, std::move(capsule), access, bfloat16 ? int{TW_DL_BFLOAT} : -1, keepers);
  }
  PyErr_Clear();
  refuse("{}: argument '{}' has NumPy dtype {}, allowed: float32, float16, int8, and bfloat16 of ml_dtypes ({})", op,
         name, nb::cast<std::string>(nb::str(dtype)), nb::cast<std::string>(nb::str(error.value())));
}

TensorView import_jax(const char* op, const char* name, nb::handle array, Access access, Keepers& keepers) {
  if (access == Access::kWrite) {
    refuse("{}: argument '{}' is a JAX array, which is immutable: leave it out and take the result", op, name);
  }
  // Computed asynchronously: wait for the values. A tracer has none.
  const nb::object wait = nb::getattr(array, "block_until_ready", nb::none());
  if (wait.is_none()) {
    refuse("{}: argument '{}' is traced by JAX: call tilewright.{} outside of jax.jit, or through jax.pure_callback",
           op, name, op);
  }
  if (access == Access::kRead) wait();
  return import_capsule(op, name, array, access, keepers);
}

}  // namespace

ImportedTensor import_tensor(const char* op, const char* name, nb::handle object, Access access, Keepers& keepers) {
  const TypeTraits& traits = traits_of(object);
  if (!traits.tensor) {
    refuse("{}: argument '{}' is {}, allowed: a tensor of PyTorch, NumPy or JAX, or any object with __dlpack__", op,
           name, nb::cast<std::string>(nb::str(object.type().attr("__qualname__"))));
  }
  switch (traits.framework) {
    case Framework::kTorch: return {import_torch(op, name, object, traits, access, keepers), traits.framework};
    case Framework::kNumpy: return {import_numpy(op, name, object, access, keepers), traits.framework};
    case Framework::kJax: return {import_jax(op, name, object, access, keepers), traits.framework};
    case Framework::kOther: break;
  }
  return {import_capsule(op, name, object, access, keepers), traits.framework};
}

}  // namespace tilewright::python
