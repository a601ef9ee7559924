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

// Numbers of tokens or rows, [T] or [T, 2] of i32; of i64 as their words, with a last dimension of 2 more.
inline Status read_numbers(const char* name, const TwDLTensor* from, bool addresses, TensorView& to) {
  if (from == nullptr || from->ndim < 1 || from->ndim > 2 || from->dtype.code != TW_DL_INT || from->dtype.bits != 64) {
    return read_tensor(name, from, addresses, to);
  }
  TwDLTensor words = *from;
  const auto rank = static_cast<size_t>(from->ndim);
  std::array<int64_t, 3> shape{}, strides{};
  int64_t packed = 2;
  for (size_t i = rank; i-- > 0; packed *= shape[i]) {
    shape[i] = from->shape[i];
    strides[i] = from->strides == nullptr ? packed : 2 * from->strides[i];
  }
  shape[rank] = 2, strides[rank] = 1;
  words.ndim = from->ndim + 1, words.dtype.bits = 32;
  words.shape = shape.data(), words.strides = strides.data();
  return read_tensor(name, &words, addresses, to);
}

}  // namespace tilewright::c_abi
