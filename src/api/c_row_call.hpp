// SPDX-License-Identifier: MIT
// What row operators' calls through the C ABI have in common.
#pragma once

#include <array>

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

// Numbers of tokens or rows, [T] of i32; of i64 as their words, [T, 2].
inline Status read_numbers(const char* name, const TwDLTensor* from, bool addresses, TensorView& to) {
  if (from == nullptr || from->ndim != 1 || from->dtype.code != TW_DL_INT || from->dtype.bits != 64) {
    return read_tensor(name, from, addresses, to);
  }
  TwDLTensor words = *from;
  std::array<int64_t, 2> shape{from->shape[0], 2};
  std::array<int64_t, 2> strides{from->strides == nullptr ? 2 : 2 * from->strides[0], 1};
  words.ndim = 2, words.dtype.bits = 32;
  words.shape = shape.data(), words.strides = strides.data();
  return read_tensor(name, &words, addresses, to);
}

}  // namespace tilewright::c_abi
