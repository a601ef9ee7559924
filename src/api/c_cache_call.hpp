// SPDX-License-Identifier: MIT
// What calls on the paged KV cache through the C ABI have in common.
#pragma once

#include "api/c_row_call.hpp"

namespace tilewright::c_abi {

struct NamedCacheTensor {
  const char* name;
  const TwDLTensor* from;
  TensorView& to;
};

}  // namespace tilewright::c_abi
