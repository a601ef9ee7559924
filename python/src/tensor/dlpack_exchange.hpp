// SPDX-License-Identifier: MIT
// The parts of DLPack's Python protocol that tilewright speaks: capsules of both kinds, and the exchange table that newer
// frameworks put on their tensor type. Layouts are DLPack's, fixed by its major version 1.
#pragma once

#include <cstdint>

#include "tilewright/dlpack_abi.h"

namespace tilewright::python {

inline constexpr const char* kLegacyCapsule = "dltensor";
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";
inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";
inline constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";

struct DlpackVersion {
  uint32_t major, minor;
};
inline constexpr DlpackVersion kDlpackVersion = {1, 0};

// Without versions, until DLPack 0.8.
struct DlpackManaged {
  TwDLTensor tensor;
  void* manager;
  void (*deleter)(DlpackManaged*);
};

struct DlpackManagedVersioned {
  DlpackVersion version;
  void* manager;
  void (*deleter)(DlpackManagedVersioned*);
  uint64_t flags;
  TwDLTensor tensor;
};
inline constexpr uint64_t kDlpackReadOnly = 1;

// Functions of a framework, without a Python call between. Each returns 0, or -1 with a Python exception set.
struct DlpackExchangeHeader {
  DlpackVersion version;
  const DlpackExchangeHeader* previous;  // a table of an older major version
};
struct DlpackExchange {
  DlpackExchangeHeader header;
  int (*allocate)(TwDLTensor* prototype, DlpackManagedVersioned** out, void* error_context,
                  void (*set_error)(void*, const char*, const char*));
  int (*managed_from_object)(void* object, DlpackManagedVersioned** out);
  int (*object_from_managed)(DlpackManagedVersioned* tensor, void** out);
  int (*tensor_from_object)(void* object, TwDLTensor* out);  // borrowed from the object; may be null
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

}  // namespace tilewright::python
