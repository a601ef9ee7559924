// SPDX-License-Identifier: MIT
// What calls on the paged KV cache through the C ABI have in common.
#pragma once

#include <array>

#include "api/c_row_call.hpp"

namespace tilewright::c_abi {

// [T] of i32; of i64 as their words, [T, 2].
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

struct NamedCacheTensor {
  const char* name;
  const TwDLTensor* from;
  TensorView& to;
};

}  // namespace tilewright::c_abi
