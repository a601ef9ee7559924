// SPDX-License-Identifier: MIT
// Tensor maps: from the symbolic fields to the driver's arguments.
#include <cstring>

#include "device/cuda/tensor_maps.hpp"
#include "unit/device/cuda/fake_device.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

TensorMapSpec bf16_map() {
  TensorMapSpec spec;
  spec.arg_offset = 128;
  spec.dtype = DType::kBf16;
  spec.rank = 3;
  spec.dims = {4096, 100, 7};
  spec.strides = {2, 8192, 819200};
  spec.box = {64, 128, 1};
  spec.swizzle = TensorMapSpec::Swizzle::k128;
  return spec;
}

class CudaTensorMapTest : public test::FakeCudaTest {};

TEST_F(CudaTensorMapTest, TheDriverGetsWhatTheSpecSays) {
  auto device = open();
  alignas(64) std::byte map[128];
  ASSERT_TRUE(device->encode_tensor_map(bf16_map(), map).ok());
  const auto& made = fake->maps.at(0);
  EXPECT_EQ(made.type, cuda::MapDataType::kBfloat16);
  EXPECT_EQ(made.rank, 3u);
  EXPECT_THAT(std::span(made.dims).first(3), testing::ElementsAre(4096, 100, 7));
  EXPECT_THAT(std::span(made.strides).first(2), testing::ElementsAre(8192, 819200));  // without the element's
  EXPECT_THAT(std::span(made.box).first(3), testing::ElementsAre(64, 128, 1));
  EXPECT_EQ(made.swizzle, cuda::MapSwizzle::k128);
  EXPECT_NE(made.address, nullptr);
  EXPECT_EQ(static_cast<int>(map[100]), 0x5A);
}

TEST_F(CudaTensorMapTest, AMapInBytesThatAreNotAlignedIsEncodedToo) {
  auto device = open();
  alignas(64) std::byte bytes[192];
  ASSERT_TRUE(device->encode_tensor_map(bf16_map(), bytes + 16).ok());  // a vector's bytes are aligned to 16
  EXPECT_EQ(static_cast<int>(bytes[16 + 127]), 0x5A);
}

TEST_F(CudaTensorMapTest, EachCallBringsItsAddress) {
  auto device = open();
  alignas(64) std::byte map[128];
  ASSERT_TRUE(device->encode_tensor_map(bf16_map(), map).ok());
  auto* const address = reinterpret_cast<void*>(0x7F0000010);
  ASSERT_TRUE(device->set_tensor_map_address(map, address).ok());
  void* in_map = nullptr;
  std::memcpy(&in_map, map, sizeof(in_map));
  EXPECT_EQ(in_map, address);
  EXPECT_THAT(device->set_tensor_map_address(map, reinterpret_cast<void*>(0x7F0000008)).message(),
              HasSubstr("address 0x7f0000008, allowed: multiples of 16"));
  EXPECT_FALSE(device->set_tensor_map_address(map, nullptr).ok());
}

TEST_F(CudaTensorMapTest, ADriverThatKeepsTheAddressElsewhereIsAskedEachTime) {
  fake->map_address_offset = 40;
  auto device = open();
  alignas(64) std::byte map[128];
  ASSERT_TRUE(device->encode_tensor_map(bf16_map(), map).ok());
  auto* const address = reinterpret_cast<void*>(0x7F0000010);
  ASSERT_TRUE(device->set_tensor_map_address(map, address).ok());
  void* in_map = nullptr;
  std::memcpy(&in_map, map + 40, sizeof(in_map));
  EXPECT_EQ(in_map, address);
  EXPECT_EQ(static_cast<int>(map[0]), 0x5A);
}

TEST_F(CudaTensorMapTest, WhatTheCopyEngineCannotWalkIsRefusedByFieldAndValue) {
  const auto refusal = [](auto change) {
    TensorMapSpec spec = bf16_map();
    change(spec);
    const Status status = cuda::tensor_map_arguments(spec).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    return status.message();
  };
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.strides[1] = 8200; }), HasSubstr("strides[1] is 8200 bytes"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.strides[0] = 4; }), HasSubstr("strides[0] is 4, allowed: 2"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.box[1] = 257; }), HasSubstr("box[1] is 257, allowed: 1 .. 256"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.box[0] = 128; }), HasSubstr("box[0] is 256 bytes, allowed with this"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.box[0] = 12; }), HasSubstr("box[0] is 24 bytes"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.dims[2] = 0; }), HasSubstr("dims[2] is 0"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.rank = 6; }), HasSubstr("rank is 6, allowed: 1 .. 5"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.dtype = DType::kI4; }), HasSubstr("dtype is i4"));
  EXPECT_THAT(refusal([](TensorMapSpec& s) { s.arg_offset = 32; }), HasSubstr("arg_offset is 32"));
}

TEST_F(CudaTensorMapTest, DevicesWithoutTensorMapsSaySo) {
  fake->major = 8;
  auto device = open();
  std::byte map[128];
  EXPECT_THAT(device->encode_tensor_map(bf16_map(), map).message(), HasSubstr("no tensor maps"));
}

}  // namespace
}  // namespace tilewright
