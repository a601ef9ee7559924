// SPDX-License-Identifier: MIT
// What is known of a Python type whose objects are passed as tensors; asked once a type.
#pragma once

#include "errors.hpp"
#include "tensor/dlpack_exchange.hpp"

namespace tilewright::python {

// Whose tensor it is; tilewright/_frameworks.py has the same numbers.
enum class Framework : uint8_t { kOther = 0, kTorch = 1, kNumpy = 2, kJax = 3 };

struct TypeTraits {
  Framework framework = Framework::kOther;
  const DlpackExchange* exchange = nullptr;  // its functions may be called for objects of this very type
  bool plain = false;                        // the framework's own tensor, no subclass that may change what it means
  bool tensor = false;
};

// Under the GIL. Types seen are kept alive, so that an address never comes to mean another type.
const TypeTraits& traits_of(nb::handle object);

// An attribute's name, made once: looking one up by characters costs more than the look-up. Never freed.
nb::handle intern(const char* text);

}  // namespace tilewright::python
