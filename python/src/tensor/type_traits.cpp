// SPDX-License-Identifier: MIT
#include "tensor/type_traits.hpp"

#include <unordered_map>

#include "python_function.hpp"

namespace tilewright::python {
namespace {

const DlpackExchange* find_exchange(nb::handle type) {
  const nb::object capsule = nb::getattr(type, kExchangeAttribute, nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), kExchangeCapsule)) return nullptr;
  const auto* header = static_cast<const DlpackExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), kExchangeCapsule));
  while (header != nullptr && header->version.major != kDlpackVersion.major) header = header->previous;
  const auto* exchange = reinterpret_cast<const DlpackExchange*>(header);
  const bool whole =
      exchange != nullptr && exchange->tensor_from_object != nullptr && exchange->managed_from_object != nullptr;
  return whole ? exchange : nullptr;
}

}  // namespace

const TypeTraits& traits_of(nb::handle object) {
  static auto* const kKnown = new std::unordered_map<PyTypeObject*, TypeTraits>();
  // Most calls see one type.
  static PyTypeObject* last_type = nullptr;
  static const TypeTraits* last = nullptr;
  PyTypeObject* const address = Py_TYPE(object.ptr());
  if (address == last_type) return *last;
  auto found = kKnown->find(address);
  if (found == kKnown->end()) {
    const nb::handle type = object.type();
    static constinit PythonFunction classify(kFrameworks, "classify");
    const nb::object answer = classify.get()(type);
    TypeTraits traits;
    traits.framework = static_cast<Framework>(nb::cast<int>(answer[0]));
    traits.plain = nb::cast<bool>(answer[1]);
    if (nb::cast<bool>(answer[2])) traits.exchange = find_exchange(type);
    traits.tensor = nb::cast<bool>(answer[3]);
    type.inc_ref();
    found = kKnown->emplace(address, traits).first;
  }
  last_type = address;
  last = &found->second;
  return *last;
}

nb::handle intern(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace tilewright::python
