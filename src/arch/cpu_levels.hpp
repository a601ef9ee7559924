// SPDX-License-Identifier: MIT
// The CPU targets that kernels without a matrix instruction are compiled for.
#pragma once

#include <string_view>

namespace tilewright {

// One for each width of vectors, and one more for what writes bf16, which has an instruction there.
constexpr bool is_vector_level(std::string_view target, bool writes_bf16 = false) {
  return target == "x86-64-v3" || target == "x86-64-v4" || (writes_bf16 && target == "x86-64-v4-bf16");
}

}  // namespace tilewright
