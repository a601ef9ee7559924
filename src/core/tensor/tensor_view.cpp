// SPDX-License-Identifier: MIT
// Making TensorViews by hand and from DLPack.
#include "tilewright/tensor_view.hpp"

#include <fmt/format.h>

#include <utility>

namespace tilewright {

namespace {

template <class... Args>
Status refuse_view(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "dlpack: " + fmt::format(format, std::forward<Args>(args)...));
}

struct DlpackType {
  int code, bits;
  DType dtype;
};

constexpr DlpackType kDlpackTypes[] = {
    {TW_DL_FLOAT, 32, DType::kF32},
    {TW_DL_FLOAT, 16, DType::kF16},
    {TW_DL_BFLOAT, 16, DType::kBf16},
    {TW_DL_FLOAT8_E4M3FN, 8, DType::kF8E4M3},
    {TW_DL_FLOAT8_E5M2, 8, DType::kF8E5M2},
    {TW_DL_FLOAT8_E4M3FNUZ, 8, DType::kF8E4M3Fnuz},
    {TW_DL_FLOAT8_E5M2FNUZ, 8, DType::kF8E5M2Fnuz},
    {TW_DL_FLOAT8_E8M0FNU, 8, DType::kE8M0},
    {TW_DL_FLOAT4_E2M1FN, 4, DType::kF4E2M1},
    {TW_DL_INT, 8, DType::kI8},
    {TW_DL_INT, 4, DType::kI4},
    {TW_DL_UINT, 4, DType::kU4},
    {TW_DL_INT, 32, DType::kI32},
};

// Two 4-bit elements, as PyTorch's float4_e2m1fn_x2 is.
bool is_pair(const TwDLDataType& type) { return type.bits == 4 && type.lanes == 2; }

// "float64"; of what has no such name its numbers.
std::string type_name(const TwDLDataType& type) {
  constexpr uint8_t kBool = 6;
  constexpr const char* kNames[] = {"int", "uint", "float", nullptr, "bfloat", "complex"};
  if (type.code == kBool) return "bool";
  const char* const name = type.code < std::size(kNames) ? kNames[type.code] : nullptr;
  return name == nullptr ? fmt::format("code {} of {} bits", type.code, type.bits)
                         : fmt::format("{}{}", name, type.bits);
}

Result<DType> dtype_of(const TwDLDataType& type) {
  if (type.lanes != 1 && !is_pair(type)) {
    return refuse_view("dtype.lanes is {}; only 1 is allowed, and 2 of 4-bit elements", type.lanes);
  }
  for (const DlpackType& known : kDlpackTypes) {
    if (known.code == type.code && known.bits == type.bits) return known.dtype;
  }
  std::string views;
  for (const DlpackType& known : kDlpackTypes)
    views += fmt::format("{}{}", views.empty() ? "" : ", ", dtype_name(known.dtype));
  return refuse_view("dtype is {}; views have: {}", type_name(type), views);
}

Result<DeviceId> device_of(const TwDLDevice& device) {
  switch (device.device_type) {
    // Pinned memory belongs to the CPU; its device_id names the GPU it was pinned for.
    case TW_DL_CPU:
    case TW_DL_CUDA_HOST:
    case TW_DL_ROCM_HOST: return DeviceId{DeviceKind::kCpu, 0};
    case TW_DL_CUDA: return DeviceId{DeviceKind::kCuda, device.device_id};
    case TW_DL_ROCM: return DeviceId{DeviceKind::kHip, device.device_id};
    default:
      return refuse_view("device_type is {}; allowed: 1 (CPU), 2 (CUDA), 3 (CUDA host), 10 (ROCm), 11 (ROCm host)",
                         device.device_type);
  }
}

void set_row_major(TensorView& view) {
  // Unsigned, so that sizes beyond 2^63 wrap instead of being undefined; operators refuse them by their extent.
  uint64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.stride[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(view.shape[i] > 1 ? view.shape[i] : 1);
  }
}

// From pairs to elements: the dimension along which pairs are neighbours has twice as many. Exporters may give a size of 1
// any stride, so that one of more elements goes before; of several the last.
bool split_pairs(TensorView& view, int along) {
  const bool given = along >= 0;
  for (int i = 0; i < view.rank && !given; ++i) {
    const bool better = along < 0 || view.shape[i] != 1 || view.shape[along] == 1;
    if (view.stride[i] == 1 && better) along = i;
  }
  if (along < 0) return false;
  for (int i = 0; i < view.rank; ++i) {
    if (i == along) {
      view.shape[i] *= 2, view.stride[i] = 1;
    } else {
      view.stride[i] *= 2;
    }
  }
  return true;
}

// Whether every element's bit offset from `data` fits 63 bits.
bool extent_fits(const TensorView& view) {
  __int128 extent = 1;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return true;
    const __int128 stride = view.stride[i] < 0 ? -static_cast<__int128>(view.stride[i]) : view.stride[i];
    extent += stride * (view.shape[i] - 1);
    if (extent > INT64_MAX / 64) return false;
  }
  return true;
}

}  // namespace

std::string to_string(DeviceId device) {
  switch (device.kind) {
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kCuda: return fmt::format("cuda:{}", device.index);
    case DeviceKind::kHip: return fmt::format("hip:{}", device.index);
    case DeviceKind::kEmulated:
      if (device.index < 0 || static_cast<size_t>(device.index) >= std::size(kEmulatedTargets)) break;
      return fmt::format("emu:{}", kEmulatedTargets[device.index]);
  }
  return "unknown";
}

Result<DeviceId> parse_device(std::string_view text) {
  constexpr int32_t kMaxIndex = 63;
  for (const auto& [name, kind] : {std::pair{"cuda", DeviceKind::kCuda}, {"hip", DeviceKind::kHip}}) {
    if (text == name) return DeviceId{kind, 0};
    for (int32_t i = 0; text.starts_with(name) && i <= kMaxIndex; ++i) {
      if (text == to_string({kind, i})) return DeviceId{kind, i};
    }
  }
  std::string emulated;
  for (int32_t i = 0; i < static_cast<int32_t>(std::size(kEmulatedTargets)); ++i) {
    const DeviceId id{DeviceKind::kEmulated, i};
    if (text == to_string(id)) return id;
    emulated += ", " + to_string(id);
  }
  if (text == to_string(DeviceId{})) return DeviceId{};
  return Status(StatusCode::kInvalidArgument,
                fmt::format("device is '{}', allowed: cpu, cuda, hip, cuda:<number>, hip:<number> (up to {}){}", text,
                            kMaxIndex, emulated));
}

TensorView TensorView::contiguous(void* data, DType dtype, std::span<const int64_t> shape, DeviceId device) {
  TensorView view;
  if (shape.size() > kMaxRank) return view;
  view.data = data;
  view.dtype = dtype;
  view.device = device;
  view.rank = static_cast<int32_t>(shape.size());
  for (int i = 0; i < view.rank; ++i) view.shape[i] = shape[i];
  set_row_major(view);
  return view;
}

TensorView TensorView::strided(void* data, DType dtype, std::span<const int64_t> shape, std::span<const int64_t> stride,
                               DeviceId device) {
  if (stride.size() != shape.size()) return {};
  TensorView view = contiguous(data, dtype, shape, device);
  for (int i = 0; i < view.rank; ++i) view.stride[i] = stride[i];
  return view;
}

TensorView TensorView::transposed(int dim0, int dim1) const {
  TensorView view = *this;
  const int first = dim0 < 0 ? dim0 + rank : dim0;
  const int second = dim1 < 0 ? dim1 + rank : dim1;
  if (first < 0 || first >= rank || second < 0 || second >= rank || layout != Layout::kStrided) return {};
  std::swap(view.shape[first], view.shape[second]);
  std::swap(view.stride[first], view.stride[second]);
  return view;
}

Result<TensorView> from_dlpack(const TwDLTensor& tensor, int pairs_along) {
  const Result<DType> dtype = dtype_of(tensor.dtype);
  if (!dtype) return dtype.status();
  const Result<DeviceId> device = device_of(tensor.device);
  if (!device) return device.status();
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
    return refuse_view("ndim is {}; allowed: 0 to {}", tensor.ndim, kMaxRank);
  if (tensor.ndim > 0 && tensor.shape == nullptr) return refuse_view("shape is NULL while ndim is {}", tensor.ndim);

  TensorView view;
  view.dtype = *dtype;
  view.device = *device;
  view.rank = tensor.ndim;
  bool empty = false;
  for (int i = 0; i < view.rank; ++i) {
    if (tensor.shape[i] < 0) return refuse_view("shape[{}] is {}; sizes are not negative", i, tensor.shape[i]);
    view.shape[i] = tensor.shape[i];
    empty = empty || tensor.shape[i] == 0;
  }
  set_row_major(view);
  for (int i = 0; tensor.strides != nullptr && i < view.rank; ++i) view.stride[i] = tensor.strides[i];
  __int128 count = 1;
  for (int i = 0; tensor.strides == nullptr && !empty && i < view.rank; ++i) {
    count *= view.shape[i];
    if (count > INT64_MAX) return refuse_view("shape holds more than 2^63 elements");
  }
  if (!extent_fits(view)) return refuse_view("shape and strides span more than 2^63 bytes");
  if (is_pair(tensor.dtype) && !split_pairs(view, pairs_along)) {
    return refuse_view("pairs of 4-bit elements have no dimension of stride 1, along which they lie");
  }
  if (tensor.data == nullptr && !empty) return refuse_view("data is NULL while the shape has elements");
  view.data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  return view;
}

}  // namespace tilewright
