// SPDX-License-Identifier: MIT
// Operands of gemm as the copy engine of Hopper walks them.
#pragma once

#include "device/device.hpp"
#include "tile/common/major.hpp"

namespace tilewright {

// An operand [batch, mn, k] in boxes of `rows` by 128 bytes of K (of 64 elements by a tile of K when it lies along M or N),
// swizzled for wgmma. A size of 1 has any stride. `offset`: of the map in the arguments.
TensorMapSpec operand_map(size_t offset, DType dtype, Major major, int64_t mn, int64_t k, int64_t batch,
                          int64_t stride_mn, int64_t stride_k, int64_t stride_batch, int rows);

}  // namespace tilewright
