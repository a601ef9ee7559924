// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dispatch/registry/family.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"

namespace tilewright {

namespace {

constexpr int64_t kMaxStrideBytes = int64_t{1} << 40;

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

void add_map(Stage& stage, uint16_t slot, const TensorMapSpec& map) {
  stage.patches.push_back({ArgPatch::Kind::kTensorMap, slot, map.arg_offset});
  stage.tensor_maps.push_back(map);
}

}  // namespace

Status check_copied_sizes(const GemmProblem& p) {
  if (std::max({p.m, p.n, p.k, p.batch}) > kMaxCopiedSize) {
    return unsupported(fmt::format("a size exceeds {}", kMaxCopiedSize));
  }
  for (const int64_t stride :
       {p.stride_a_m, p.stride_a_k, p.stride_a_batch, p.stride_b_n, p.stride_b_k, p.stride_b_batch}) {
    if (stride < 0 || stride >= kMaxStrideBytes / 4) return unsupported("a stride of A or B exceeds 2^40 bytes");
  }
  return {};
}

Status check_copied_output(const GemmProblem& p) {
  if (std::min(p.stride_d_m, p.stride_d_batch) < 0 || std::max(p.stride_d_m, p.stride_d_batch) >= kMaxStrideBytes / 4) {
    return unsupported("a stride of D is negative or exceeds 2^40 bytes");
  }
  return {};
}

void add_operand_a(Stage& stage, const GemmProblem& p, size_t offset, Major major, int rows) {
  add_map(stage, kSlotA,
          operand_map(offset, p.a_dtype, major, p.m, p.k, p.batch, p.stride_a_m, p.stride_a_k, p.stride_a_batch, rows));
}
void add_operand_b(Stage& stage, const GemmProblem& p, size_t offset, Major major, int rows) {
  add_map(stage, kSlotB,
          operand_map(offset, p.b_dtype, major, p.n, p.k, p.batch, p.stride_b_n, p.stride_b_k, p.stride_b_batch, rows));
}
void add_slices_of_a(Stage& stage, const GemmProblem& p, size_t offset, int rows, int slices) {
  const auto element = static_cast<uint64_t>(dtype_bits(p.a_dtype) / 8),
             slice = static_cast<uint64_t>(sm90_tile_k(p.a_dtype));
  const bool one = p.stride_a_batch == 0 || p.batch == 1;
  TensorMapSpec map;
  map.arg_offset = static_cast<uint32_t>(offset);
  map.dtype = p.a_dtype;
  map.rank = 4;
  map.dims = {slice, static_cast<uint64_t>(p.m), static_cast<uint64_t>(p.k) / slice,
              static_cast<uint64_t>(p.stride_a_batch == 0 ? 1 : p.batch)};
  map.strides = {element, p.m == 1 ? 16 : static_cast<uint64_t>(p.stride_a_m) * element, slice * element,
                 one ? 16 : static_cast<uint64_t>(p.stride_a_batch) * element};
  map.box = {static_cast<uint32_t>(slice), static_cast<uint32_t>(rows), static_cast<uint32_t>(slices), 1};
  map.swizzle = TensorMapSpec::Swizzle::k128;
  add_map(stage, kSlotA, map);
}
void add_packed_b(Stage& stage, const GemmProblem& p, size_t offset, int rows, int k) {
  TensorMapSpec map;
  map.arg_offset = static_cast<uint32_t>(offset);
  map.dtype = DType::kF32;  // words of bits
  map.rank = 4;
  map.dims = {kFragmentWords, static_cast<uint64_t>(packed_fragments(p.k) * kFragmentsAside),
              static_cast<uint64_t>(packed_fragment_groups(p.n)),
              static_cast<uint64_t>(p.stride_b_batch == 0 ? 1 : p.batch)};
  map.strides = {4, kFragmentBytes, static_cast<uint64_t>(packed_fragments_group_bytes(p.k)),
                 static_cast<uint64_t>(p.stride_b_batch == 0 || p.batch == 1 ? 16 : p.stride_b_batch)};
  map.box = {kFragmentWords, static_cast<uint32_t>(k / kFragmentK * kFragmentsAside),
             static_cast<uint32_t>(rows / kFragmentGroup), 1};
  add_map(stage, kSlotB, map);
}
void add_output_d(Stage& stage, const GemmProblem& p, size_t offset, int rows, int columns) {
  const auto element = static_cast<uint64_t>(dtype_bits(p.d_dtype) / 8);
  const auto bytes = [&](int64_t size, int64_t stride) {  // a size of 1 has any stride
    return size == 1 ? 16 : static_cast<uint64_t>(stride) * element;
  };
  TensorMapSpec map;
  map.arg_offset = static_cast<uint32_t>(offset);
  map.dtype = p.d_dtype;
  map.rank = 3;
  map.dims = {static_cast<uint64_t>(p.out_n()), static_cast<uint64_t>(p.m), static_cast<uint64_t>(p.batch)};
  map.strides = {element, bytes(p.m, p.stride_d_m), bytes(p.batch, p.stride_d_batch)};
  map.box = {static_cast<uint32_t>(columns), static_cast<uint32_t>(rows), 1};
  map.swizzle = columns * element == 128 ? TensorMapSpec::Swizzle::k128 : TensorMapSpec::Swizzle::kNone;
  add_map(stage, kSlotD, map);
}

}  // namespace tilewright
