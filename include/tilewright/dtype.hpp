// SPDX-License-Identifier: MIT
// Element types: names, sizes and exact conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tile/common/dtype.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

// Bytes taken by `count` elements; 4-bit types round up to a whole byte.
constexpr int64_t dtype_bytes(DType dtype, int64_t count) { return (count * dtype_bits(dtype) + 7) / 8; }

// "bf16" -> DType::kBf16; the error lists every known name.
TILEWRIGHT_API Result<DType> parse_dtype(std::string_view name);

// Element `index` of an array of `dtype`, widened exactly. e8m0 and i32 are exact in double.
TILEWRIGHT_API double load_element(DType dtype, const void* data, int64_t index);

// Rounds to nearest even; 8-bit and 4-bit types saturate, NaN stays NaN where the type has one (docs/numerics.md).
TILEWRIGHT_API void store_element(DType dtype, void* data, int64_t index, double value);

}  // namespace tilewright
