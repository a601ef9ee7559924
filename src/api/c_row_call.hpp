// SPDX-License-Identifier: MIT
// What row operators' calls through the C ABI have in common.
#pragma once

#include "api/c_gemm_call.hpp"

namespace tilewright::c_abi {

// A number of an enum.
template <class Enum>
Status read_number(const char* op, const char* name, int32_t given, Enum& to) {
  if (given >= 0 && given < enum_count(Enum{})) {
    to = static_cast<Enum>(given);
    return {};
  }
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: argument '{}' is {}, allowed: 0 to {}", op, name, given, enum_count(Enum{}) - 1));
}

}  // namespace tilewright::c_abi
