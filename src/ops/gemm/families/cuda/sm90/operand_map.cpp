// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"

#include "gemm/sm90/gemm_sm90_args.hpp"

namespace tilewright {

TensorMapSpec operand_map(size_t offset, DType dtype, Major major, int64_t mn, int64_t k, int64_t batch,
                          int64_t stride_mn, int64_t stride_k, int64_t stride_batch, int rows) {
  const auto element = static_cast<int64_t>(dtype_bits(dtype) / 8);
  const bool along_k = major == Major::kK;
  const int64_t outer = along_k ? mn : k, step = along_k ? stride_mn : stride_k;
  TensorMapSpec map;
  map.arg_offset = static_cast<uint32_t>(offset);
  map.dtype = dtype;
  map.rank = 3;
  map.dims = {static_cast<uint64_t>(along_k ? k : mn), static_cast<uint64_t>(outer),
              static_cast<uint64_t>(stride_batch == 0 ? 1 : batch)};
  map.strides = {static_cast<uint64_t>(element), static_cast<uint64_t>(outer == 1 ? 16 : step * element),
                 static_cast<uint64_t>(stride_batch == 0 || batch == 1 ? 16 : stride_batch * element)};
  const auto tile_k = static_cast<uint32_t>(sm90_tile_k(dtype));
  map.box = along_k ? std::array<uint32_t, 5>{tile_k, static_cast<uint32_t>(rows), 1}
                    : std::array<uint32_t, 5>{64, tile_k, 1};
  map.swizzle = TensorMapSpec::Swizzle::k128;
  return map;
}

}  // namespace tilewright
