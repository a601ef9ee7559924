// SPDX-License-Identifier: MIT
#include "device/cuda/tensor_maps.hpp"

#include <fmt/format.h>

namespace tilewright::cuda {
namespace {

// Limits of cuTensorMapEncodeTiled, CUDA Driver API reference.
constexpr uint32_t kMaxMapRank = 5, kMaxBox = 256;
constexpr uint64_t kMaxDim = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;

Status refuse_map(std::string message) { return Status(StatusCode::kUnsupported, "tensor map: " + std::move(message)); }

Result<MapDataType> map_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return MapDataType::kFloat32;
    case DType::kF16: return MapDataType::kFloat16;
    case DType::kBf16: return MapDataType::kBfloat16;
    case DType::kI32: return MapDataType::kInt32;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kE8M0: return MapDataType::kUint8;
    default:
      return refuse_map(
          fmt::format("dtype is {}, allowed: f32, f16, bf16, i32, e4m3, e5m2, i8, e8m0", dtype_name(dtype)));
  }
}

int64_t swizzle_span(TensorMapSpec::Swizzle swizzle) {
  switch (swizzle) {
    case TensorMapSpec::Swizzle::k32: return 32;
    case TensorMapSpec::Swizzle::k64: return 64;
    case TensorMapSpec::Swizzle::k128: return 128;
    case TensorMapSpec::Swizzle::kNone: break;
  }
  return 0;
}

}  // namespace

Result<TensorMapArguments> tensor_map_arguments(const TensorMapSpec& spec) {
  Result<MapDataType> type = map_type(spec.dtype);
  if (!type) return type.status();
  if (spec.rank < 1 || spec.rank > kMaxMapRank) {
    return refuse_map(fmt::format("rank is {}, allowed: 1 .. {}", spec.rank, kMaxMapRank));
  }
  if (spec.arg_offset % 64 != 0) {
    return refuse_map(fmt::format("arg_offset is {}, allowed: multiples of 64", spec.arg_offset));
  }
  const auto element = static_cast<uint64_t>(dtype_bits(spec.dtype) / 8);
  TensorMapArguments out{*type, spec.rank, {}, {}, {}, {}, static_cast<MapSwizzle>(spec.swizzle)};
  if (spec.strides[0] != element) {
    return refuse_map(fmt::format("strides[0] is {}, allowed: {}, the size of an element", spec.strides[0], element));
  }
  for (uint32_t i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] == 0 || spec.dims[i] > kMaxDim) {
      return refuse_map(fmt::format("dims[{}] is {}, allowed: 1 .. 2^32", i, spec.dims[i]));
    }
    if (spec.box[i] == 0 || spec.box[i] > kMaxBox) {
      return refuse_map(fmt::format("box[{}] is {}, allowed: 1 .. {}", i, spec.box[i], kMaxBox));
    }
    if (i > 0 && (spec.strides[i] % 16 != 0 || spec.strides[i] >= kMaxStride)) {
      return refuse_map(
          fmt::format("strides[{}] is {} bytes, allowed: multiples of 16 below 2^40", i, spec.strides[i]));
    }
    out.dims[i] = spec.dims[i];
    out.box[i] = spec.box[i];
    out.element_strides[i] = 1;
    if (i > 0) out.strides[i - 1] = spec.strides[i];
  }
  const uint64_t row = spec.box[0] * element;
  if (row % 16 != 0) return refuse_map(fmt::format("box[0] is {} bytes, allowed: multiples of 16", row));
  if (const auto span = static_cast<uint64_t>(swizzle_span(spec.swizzle)); span != 0 && row > span) {
    return refuse_map(fmt::format("box[0] is {} bytes, allowed with this swizzle: at most {}", row, span));
  }
  return out;
}

}  // namespace tilewright::cuda
