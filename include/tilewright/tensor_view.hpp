// SPDX-License-Identifier: MIT
// TensorView: a typed, strided window on memory that someone else owns. Made from DLPack or by hand.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "tilewright/dlpack_abi.h"
#include "tilewright/dtype.hpp"

namespace tilewright {

enum class DeviceKind : uint8_t { kCpu = 0, kCuda = 1, kHip = 2, kEmulated = 3 };

struct DeviceId {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t index = 0;
  bool operator==(const DeviceId&) const = default;
};

// Targets that an emulated device can stand for: its index counts them.
inline constexpr const char* kEmulatedTargets[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

// "cpu", "cuda:0", "hip:1", "emu:gfx942"
TILEWRIGHT_API std::string to_string(DeviceId device);
// Back again; "cuda" and "hip" are the first ones. The error says what is allowed.
TILEWRIGHT_API Result<DeviceId> parse_device(std::string_view text);

// How elements lie in memory. A packed layout is opaque: strides do not apply, and only the operator that packed the
// tensor reads it.
enum class Layout : uint8_t {
  kStrided = 0,
  kPackedGemmB = 1,          // gemm weights, see gemm_pack_weights
  kPackedGemmFragments = 2,  // the same of 4 bits, packed on an NVIDIA GPU
};

inline constexpr int kMaxRank = 8;

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kNone;
  Layout layout = Layout::kStrided;
  DeviceId device;
  int32_t rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};  // in elements, not bytes; may be zero (broadcast) or negative

  bool defined() const { return dtype != DType::kNone; }
  int64_t numel() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= shape[i];
    return count;
  }

  // Row-major over `shape`. A rank above kMaxRank gives an undefined tensor, which every operator refuses.
  TILEWRIGHT_API static TensorView contiguous(void* data, DType dtype, std::span<const int64_t> shape,
                                              DeviceId device = {});
  static TensorView contiguous(void* data, DType dtype, std::initializer_list<int64_t> shape, DeviceId device = {}) {
    return contiguous(data, dtype, std::span<const int64_t>(shape.begin(), shape.size()), device);
  }
  TILEWRIGHT_API static TensorView strided(void* data, DType dtype, std::span<const int64_t> shape,
                                           std::span<const int64_t> stride, DeviceId device = {});
  static TensorView strided(void* data, DType dtype, std::initializer_list<int64_t> shape,
                            std::initializer_list<int64_t> stride, DeviceId device = {}) {
    return strided(data, dtype, std::span<const int64_t>(shape.begin(), shape.size()),
                   std::span<const int64_t>(stride.begin(), stride.size()), device);
  }

  // The same memory with two dimensions exchanged; negative dimensions count from the back.
  TILEWRIGHT_API TensorView transposed(int dim0 = -2, int dim1 = -1) const;
};

// Refuses (with the field and its value) what a TensorView cannot express: lanes != 1, unknown type codes, rank > 8. Pairs of
// 4-bit elements (lanes = 2, PyTorch's float4_e2m1fn_x2) become elements along the dimension of stride 1, or along `pairs_along`, where
// that is not -1.
TILEWRIGHT_API Result<TensorView> from_dlpack(const TwDLTensor& tensor, int pairs_along = -1);

// The same for DLPack's own DLTensor, whichever version of its header is included.
template <class DlpackTensor>
  requires requires(const DlpackTensor& t) { t.device.device_type, t.dtype.lanes, t.strides, t.byte_offset; }
Result<TensorView> from_dlpack(const DlpackTensor& tensor) {
  return from_dlpack(TwDLTensor{tensor.data,
                                {static_cast<int32_t>(tensor.device.device_type), tensor.device.device_id},
                                tensor.ndim,
                                {tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes},
                                tensor.shape,
                                tensor.strides,
                                tensor.byte_offset});
}

}  // namespace tilewright
