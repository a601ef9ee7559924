// SPDX-License-Identifier: MIT
// TensorViews made by hand and from DLPack; the ABI struct has DLPack's layout.
#include "tilewright/tensor_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

// DLPack 1.1's own declarations, shaped as its header has them: an enum of int32_t for the device type, and a typedef of
// an unnamed struct.
typedef enum : int32_t { kDLCPU = 1 } DLDeviceType;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

}  // namespace

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> shape_of(const TensorView& view) { return {view.shape.begin(), view.shape.begin() + view.rank}; }
std::vector<int64_t> stride_of(const TensorView& view) {
  return {view.stride.begin(), view.stride.begin() + view.rank};
}

// A 2 x 3 f32 tensor on the CPU whose fields a test changes.
struct SampleTensor {
  float data[6] = {};
  int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1};
  int64_t strides[9] = {3, 1, 1, 1, 1, 1, 1, 1, 1};
  TwDLTensor tensor{data, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, shape, strides, 0};
};

TEST(TensorViews, ContiguousIsRowMajor) {
  float data[24];
  const TensorView view = TensorView::contiguous(data, DType::kF32, {2, 3, 4});
  EXPECT_EQ(view.data, data);
  EXPECT_TRUE(view.defined());
  EXPECT_EQ(view.numel(), 24);
  EXPECT_THAT(stride_of(view), ElementsAre(12, 4, 1));
  EXPECT_THAT(stride_of(TensorView::contiguous(data, DType::kF32, {5, 0, 4})), ElementsAre(4, 4, 1));
  EXPECT_EQ(TensorView::contiguous(data, DType::kF32, std::span<const int64_t>()).numel(), 1);
}

TEST(TensorViews, RankAndStrideMistakesGiveAnUndefinedTensor) {
  const std::vector<int64_t> nine(9, 1), two(2, 1);
  EXPECT_FALSE(TensorView().defined());
  EXPECT_FALSE(TensorView::contiguous(nullptr, DType::kF32, nine).defined());
  EXPECT_FALSE(TensorView::strided(nullptr, DType::kF32, two, nine).defined());
  EXPECT_FALSE(TensorView::contiguous(nullptr, DType::kF32, two).transposed(0, 2).defined());
  EXPECT_FALSE(TensorView::contiguous(nullptr, DType::kF32, {4}).transposed().defined());
}

TEST(TensorViews, PairsOfFourBitElementsSplitAlongTheDimensionOfStrideOne) {
  const auto split = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    unsigned char data[64];
    const Result<TensorView> view = from_dlpack(TwDLTensor{data,
                                                           {TW_DL_CPU, 0},
                                                           static_cast<int32_t>(shape.size()),
                                                           {TW_DL_FLOAT4_E2M1FN, 4, 2},
                                                           shape.data(),
                                                           strides.empty() ? nullptr : strides.data(),
                                                           0});
    if (!view) return std::pair{std::vector<int64_t>{}, std::vector<int64_t>{}};
    EXPECT_EQ(view->dtype, DType::kF4E2M1);
    return std::pair{shape_of(*view), stride_of(*view)};
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(split({4, 8}, {}), std::pair(Sizes{4, 16}, Sizes{16, 1}));
  EXPECT_EQ(split({8, 4}, {1, 8}), std::pair(Sizes{16, 4}, Sizes{1, 16}));
  EXPECT_EQ(split({1, 8}, {1, 1}), std::pair(Sizes{1, 16}, Sizes{2, 1}));
  EXPECT_EQ(split({8, 1}, {1, 1}), std::pair(Sizes{16, 1}, Sizes{1, 2}));
  EXPECT_TRUE(split({2, 2}, {8, 2}).first.empty());
}

TEST(TensorViews, TransposedExchangesTheNamedDimensions) {
  const TensorView view = TensorView::contiguous(nullptr, DType::kBf16, {2, 3, 4});
  EXPECT_THAT(shape_of(view.transposed()), ElementsAre(2, 4, 3));
  EXPECT_THAT(stride_of(view.transposed()), ElementsAre(12, 1, 4));
  EXPECT_THAT(shape_of(view.transposed(0, -1)), ElementsAre(4, 3, 2));
}

TEST(TensorViews, DevicesPrintAsUsersWriteThem) {
  EXPECT_EQ(to_string(DeviceId{}), "cpu");
  EXPECT_EQ(to_string(DeviceId{DeviceKind::kCuda, 1}), "cuda:1");
  EXPECT_EQ(to_string(DeviceId{DeviceKind::kHip, 0}), "hip:0");
  EXPECT_EQ(to_string(DeviceId{DeviceKind::kEmulated, 2}), "emu:gfx950");
  EXPECT_EQ(to_string(DeviceId{DeviceKind::kEmulated, 5}), "unknown");
  for (const char* text : {"cpu", "cuda:0", "cuda:63", "hip:7", "emu:gfx90a", "emu:gfx1201"}) {
    const Result<DeviceId> id = parse_device(text);
    ASSERT_TRUE(id.ok()) << text;
    EXPECT_EQ(to_string(*id), text);
  }
  EXPECT_EQ(*parse_device("hip"), (DeviceId{DeviceKind::kHip, 0}));
  for (const char* text : {"", "cuda:", "cuda:64", "cuda:01", "hip:-1", "emu", "emu:gfx1030", "gpu"}) {
    const Status status = parse_device(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), testing::HasSubstr("emu:gfx942")) << text;
  }
}

TEST(DlpackAbi, StructsHaveDlpacksLayout) {
  static_assert(sizeof(TwDLTensor) == sizeof(DLTensor) && sizeof(TwDLTensor) == 48);
  static_assert(offsetof(TwDLTensor, device) == offsetof(DLTensor, device));
  static_assert(offsetof(TwDLTensor, ndim) == offsetof(DLTensor, ndim));
  static_assert(offsetof(TwDLTensor, dtype) == offsetof(DLTensor, dtype));
  static_assert(offsetof(TwDLTensor, shape) == offsetof(DLTensor, shape));
  static_assert(offsetof(TwDLTensor, strides) == offsetof(DLTensor, strides));
  static_assert(offsetof(TwDLTensor, byte_offset) == offsetof(DLTensor, byte_offset));
}

TEST(DlpackAbi, DlpacksOwnStructIsTakenToo) {
  float data[6];
  int64_t shape[] = {3, 2};
  const DLTensor tensor{data, {kDLCPU, 0}, 2, {2, 32, 1}, shape, nullptr, 8};
  const auto view = from_dlpack(tensor);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->data, data + 2);
  EXPECT_THAT(stride_of(*view), ElementsAre(2, 1));
}

TEST(FromDlpack, StridesAreKeptWhetherZeroNegativeOrPermuted) {
  SampleTensor sample;
  sample.strides[0] = 0;
  sample.strides[1] = -1;
  auto view = from_dlpack(sample.tensor);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_THAT(shape_of(*view), ElementsAre(2, 3));
  EXPECT_THAT(stride_of(*view), ElementsAre(0, -1));
  EXPECT_EQ(view->layout, Layout::kStrided);
}

TEST(FromDlpack, EveryTypeCodeOfDlpack11MapsToItsDtype) {
  const struct {
    uint8_t code, bits;
    DType dtype;
  } kCases[] = {{2, 32, DType::kF32},        {2, 16, DType::kF16},    {4, 16, DType::kBf16},
                {10, 8, DType::kF8E4M3},     {12, 8, DType::kF8E5M2}, {11, 8, DType::kF8E4M3Fnuz},
                {13, 8, DType::kF8E5M2Fnuz}, {14, 8, DType::kE8M0},   {17, 4, DType::kF4E2M1},
                {0, 8, DType::kI8},          {0, 4, DType::kI4},      {0, 32, DType::kI32},
                {1, 4, DType::kU4}};
  for (const auto& c : kCases) {
    SampleTensor sample;
    sample.tensor.dtype = {c.code, c.bits, 1};
    const auto view = from_dlpack(sample.tensor);
    ASSERT_TRUE(view.ok()) << view.status().message();
    EXPECT_EQ(view->dtype, c.dtype);
  }
}

TEST(FromDlpack, DevicesKeepTheirIndexAndPinnedMemoryBelongsToTheCpu) {
  const struct {
    int32_t type;
    DeviceId device;
  } kCases[] = {{1, {DeviceKind::kCpu, 0}},
                {2, {DeviceKind::kCuda, 3}},
                {3, {DeviceKind::kCpu, 0}},
                {10, {DeviceKind::kHip, 3}},
                {11, {DeviceKind::kCpu, 0}}};
  for (const auto& c : kCases) {
    SampleTensor sample;
    sample.tensor.device = {c.type, 3};
    const auto view = from_dlpack(sample.tensor);
    ASSERT_TRUE(view.ok()) << view.status().message();
    EXPECT_EQ(view->device, c.device);
  }
}

TEST(FromDlpack, EmptyAndScalarTensorsPass) {
  SampleTensor empty;
  empty.shape[1] = 0;
  empty.tensor.data = nullptr;
  auto view = from_dlpack(empty.tensor);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->numel(), 0);
  SampleTensor scalar;
  scalar.tensor.ndim = 0;
  scalar.tensor.shape = scalar.tensor.strides = nullptr;
  view = from_dlpack(scalar.tensor);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->numel(), 1);
}

TEST(FromDlpack, RefusalsNameTheFieldAndItsValue) {
  const struct {
    void (*change)(SampleTensor&);
    const char* message;
  } kCases[] = {
      {[](SampleTensor& s) { s.tensor.dtype.lanes = 4; },
       "dtype.lanes is 4; only 1 is allowed, and 2 of 4-bit elements"},
      {[](SampleTensor& s) { s.tensor.dtype = {2, 64, 1}; }, "dtype is float64; views have: f32, f16, bf16"},
      {[](SampleTensor& s) { s.tensor.dtype = {1, 8, 1}; }, "dtype is uint8"},
      {[](SampleTensor& s) { s.tensor.dtype = {6, 8, 1}; }, "dtype is bool"},
      {[](SampleTensor& s) { s.tensor.dtype = {17, 8, 1}; }, "dtype is code 17 of 8 bits"},
      {[](SampleTensor& s) { s.tensor.device.device_type = 8; }, "device_type is 8; allowed: 1 (CPU), 2 (CUDA)"},
      {[](SampleTensor& s) { s.tensor.ndim = 9; }, "ndim is 9; allowed: 0 to 8"},
      {[](SampleTensor& s) { s.tensor.ndim = -1; }, "ndim is -1"},
      {[](SampleTensor& s) { s.shape[1] = -3; }, "shape[1] is -3"},
      {[](SampleTensor& s) { s.tensor.shape = nullptr; }, "shape is NULL while ndim is 2"},
      {[](SampleTensor& s) { s.tensor.data = nullptr; }, "data is NULL while the shape has elements"},
      {[](SampleTensor& s) { s.strides[0] = INT64_MIN; }, "span more than 2^63 bytes"},
      {[](SampleTensor& s) {
         s.tensor.strides = nullptr;
         s.shape[0] = s.shape[1] = int64_t{1} << 33;
       },
       "more than 2^63 elements"},
  };
  for (const auto& c : kCases) {
    SampleTensor sample;
    c.change(sample);
    const auto view = from_dlpack(sample.tensor);
    ASSERT_FALSE(view.ok()) << c.message;
    EXPECT_EQ(view.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(view.status().message(), HasSubstr("dlpack: "));
    EXPECT_THAT(view.status().message(), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace tilewright
