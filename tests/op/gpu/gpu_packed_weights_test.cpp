// SPDX-License-Identifier: MIT
// Weights of 4 bits packed on an NVIDIA GPU through the public functions: back on the host exactly, and multiplied to what plain weights give.
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "op/gpu/gpu_context_test.hpp"
#include "tilewright/gemm.hpp"
#include "tilewright/tilewright.h"

namespace tilewright {
namespace {

constexpr int64_t kN = 210, kK = 448, kM = 5, kBatch = 3;

class GpuPackedWeights : public test::GpuContextTest {
 protected:
  void* copied(const void* from, int64_t bytes) {
    void* const data = zeros(*on, bytes);
    EXPECT_TRUE(on->copy_from_host(data, from, bytes).ok());
    return data;
  }
};

class GpuPackedTypes : public GpuPackedWeights, public testing::WithParamInterface<DType> {};

TEST_P(GpuPackedTypes, GiveWhatPlainOnesDo) {
  const DType dtype = GetParam();
  std::mt19937 random(3);
  std::vector<uint8_t> b(static_cast<size_t>(kBatch * kN * kK / 2)), scales(static_cast<size_t>(kBatch * kN * kK / 32));
  for (uint8_t& pair : b) pair = static_cast<uint8_t>(random());
  for (uint8_t& code : scales) code = static_cast<uint8_t>(120 + random() % 16);
  std::vector<uint16_t> a(static_cast<size_t>(kBatch * kM * kK));
  for (uint16_t& bits : a) bits = static_cast<uint16_t>(0x3C00 | (random() & 0x80FF));
  const DeviceId id = on->spec().id;
  const auto view = [&](const void* from, int64_t bytes, DType dtype, int64_t rows, int64_t columns) {
    return TensorView::contiguous(copied(from, bytes), dtype, {kBatch, rows, columns}, id);
  };
  GemmCall call;
  call.a = view(a.data(), kBatch * kM * kK * 2, DType::kBf16, kM, kK);
  call.b = view(b.data(), kBatch * kN * kK / 2, dtype, kN, kK).transposed();
  call.scale_b = view(scales.data(), kBatch * kN * kK / 32, DType::kE8M0, kN, kK / 32).transposed();
  call.scale_group_b.k = 32;
  call.d = TensorView::contiguous(zeros(*on, kBatch * kM * kN * 2), DType::kBf16, {kBatch, kM, kN}, id);
  Status status = gemm(*context, call);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto plain = read<uint16_t>(*on, call.d.data, static_cast<size_t>(kBatch * kM * kN));

  const int64_t bytes = *gemm_packed_bytes(dtype, kN, kK, kBatch, id);
  void* const packed = zeros(*on, bytes);
  status = gemm_pack_weights(*context, call.b, packed, bytes);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<TensorView> fragments = gemm_packed_view(*context, id, packed, bytes);
  ASSERT_TRUE(fragments.ok()) << fragments.status().message();
  EXPECT_EQ(fragments->layout, Layout::kPackedGemmFragments);
  GemmCall of_packed = call;
  of_packed.b = *fragments;
  of_packed.d.data = zeros(*on, kBatch * kM * kN * 2);
  status = gemm(*context, of_packed);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto got = read<uint16_t>(*on, of_packed.d.data, static_cast<size_t>(kBatch * kM * kN));
  const auto value = [](uint16_t bits) { return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16)); };
  for (size_t i = 0; i < plain.size(); ++i)
    ASSERT_NEAR(value(got[i]), value(plain[i]), std::abs(value(plain[i])) / 64 + 1) << i;

  // The same bytes on the host are the weights that were packed.
  const auto on_host = read<uint8_t>(*on, packed, static_cast<size_t>(bytes));
  std::vector<uint8_t> aligned(on_host.size() + 64);
  uint8_t* const at = aligned.data() + (64 - reinterpret_cast<uintptr_t>(aligned.data()) % 64) % 64;
  std::copy(on_host.begin(), on_host.end(), at);
  std::vector<uint8_t> back(b.size(), 0xFF);
  TensorView to = TensorView::contiguous(back.data(), dtype, {kBatch, kN, kK}, DeviceId{}).transposed();
  status = gemm_unpack_weights(*context, *gemm_packed_view(at, bytes), to);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(back, b);

  // And in the device's memory, to other strides, with what stands between them as it was.
  constexpr int64_t kRow = kK + 6, kAll = kBatch * kN * kRow / 2;
  TensorView apart = TensorView::strided(zeros(*on, kAll), dtype, {kBatch, kK, kN}, {kN * kRow, 1, kRow}, id);
  status = gemm_unpack_weights(*context, *fragments, apart);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto rows = read<uint8_t>(*on, apart.data, static_cast<size_t>(kAll));
  for (int64_t row = 0; row < kBatch * kN; ++row) {
    for (int64_t i = 0; i < kRow / 2; ++i) {
      const int wanted = i < kK / 2 ? b[static_cast<size_t>(row * kK / 2 + i)] : 0;
      ASSERT_EQ(rows[static_cast<size_t>(row * kRow / 2 + i)], wanted) << row << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuPackedTypes, testing::Values(DType::kF4E2M1, DType::kI4, DType::kU4),
                         [](const auto& given) { return std::string(dtype_name(given.param)); });

// Of codes that are all 2, the value 1, and scales of 1: D is the sum of A's row, and so is it through the C ABI.
TEST_F(GpuPackedWeights, ServeTheCAbi) {
  const std::vector<uint8_t> ones(static_cast<size_t>(kN * kK / 2), 0x22),
      scales(static_cast<size_t>(kN * kK / 32), 127);
  const std::vector<uint16_t> rows(static_cast<size_t>(kM * kK), 0x3F80);
  const TwDLDevice device = {TW_DL_CUDA, on->spec().id.index};
  const auto tensor = [&](void* data, TwDLDataType dtype, int64_t* shape, int64_t* strides) {
    return TwDLTensor{data, device, 2, dtype, shape, strides, 0};
  };
  int64_t a_shape[] = {kM, kK}, b_shape[] = {kK, kN}, s_shape[] = {kK / 32, kN}, d_shape[] = {kM, kN};
  int64_t a_strides[] = {kK, 1}, b_strides[] = {1, kK}, s_strides[] = {1, kK / 32}, d_strides[] = {kN, 1};
  const TwDLDataType bf16 = {TW_DL_BFLOAT, 16, 1}, e2m1 = {TW_DL_FLOAT4_E2M1FN, 4, 1};
  const TwDLTensor a = tensor(copied(rows.data(), kM * kK * 2), bf16, a_shape, a_strides);
  const TwDLTensor b = tensor(copied(ones.data(), kN * kK / 2), e2m1, b_shape, b_strides);
  const TwDLTensor s = tensor(copied(scales.data(), kN * kK / 32), {TW_DL_FLOAT8_E8M0FNU, 8, 1}, s_shape, s_strides);
  const TwDLTensor d = tensor(zeros(*on, kM * kN * 2), bf16, d_shape, d_strides);

  int64_t bytes = 0;
  ASSERT_EQ(tilewright_gemm_packed_bytes_on(device, e2m1, kN, kK, 1, &bytes), TILEWRIGHT_OK);
  void* const packed = zeros(*on, bytes);
  ASSERT_EQ(tilewright_gemm_pack_weights(nullptr, &b, packed, bytes), TILEWRIGHT_OK) << tilewright_last_error();
  tilewright_packed_info info = tilewright_packed_info_defaults();
  ASSERT_EQ(tilewright_gemm_packed_view_on(nullptr, device, packed, bytes, &info), TILEWRIGHT_OK)
      << tilewright_last_error();
  EXPECT_EQ(info.n, kN);
  EXPECT_EQ(info.k, kK);
  EXPECT_EQ(info.bytes, bytes);

  tilewright_gemm_call call = tilewright_gemm_call_defaults();
  call.a = &a, call.d = &d, call.scale_b = &s, call.scale_b_k = 32;
  call.b_packed = packed, call.b_packed_bytes = bytes, call.b_packed_info = &info;
  ASSERT_EQ(tilewright_gemm(nullptr, &call, nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_TRUE(on->synchronize().ok());
  const uint16_t sum = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(kK)) >> 16);
  for (const uint16_t value : read<uint16_t>(*on, d.data, static_cast<size_t>(kM * kN))) ASSERT_EQ(value, sum);

  const TwDLTensor back = tensor(zeros(*on, kN * kK / 2), e2m1, b_shape, b_strides);
  ASSERT_EQ(tilewright_gemm_unpack_weights(packed, bytes, &back), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(read<uint8_t>(*on, back.data, ones.size()), ones);
}

TEST_F(GpuPackedWeights, OfOtherTypesAreRefused) {
  const int64_t bytes = *gemm_packed_bytes(DType::kBf16, 64, 64);
  const TensorView b = TensorView::contiguous(zeros(*on, 64 * 64 * 2), DType::kBf16, {64, 64}, on->spec().id);
  EXPECT_THAT(gemm_pack_weights(*context, b, zeros(*on, bytes), bytes).message(),
              testing::HasSubstr("argument 'b': dtype bf16 on cuda:0, allowed: e2m1, i4, u4"));
}

}  // namespace
}  // namespace tilewright
