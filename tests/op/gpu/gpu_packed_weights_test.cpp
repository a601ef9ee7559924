// SPDX-License-Identifier: MIT
// e2m1 packed on an NVIDIA GPU through the public functions: back on the host exactly, and multiplied to what plain weights give.
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "op/gpu/gpu_context_test.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

constexpr int64_t kN = 210, kK = 416, kM = 5, kBatch = 3;

class GpuPackedWeights : public test::GpuContextTest {
 protected:
  void* copied(const void* from, int64_t bytes) {
    void* const data = zeros(*on, bytes);
    EXPECT_TRUE(on->copy_from_host(data, from, bytes).ok());
    return data;
  }
};

TEST_F(GpuPackedWeights, GiveWhatPlainOnesDo) {
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
  call.b = view(b.data(), kBatch * kN * kK / 2, DType::kF4E2M1, kN, kK).transposed();
  call.scale_b = view(scales.data(), kBatch * kN * kK / 32, DType::kE8M0, kN, kK / 32).transposed();
  call.scale_group_b.k = 32;
  call.d = TensorView::contiguous(zeros(*on, kBatch * kM * kN * 2), DType::kBf16, {kBatch, kM, kN}, id);
  Status status = gemm(*context, call);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto plain = read<uint16_t>(*on, call.d.data, static_cast<size_t>(kBatch * kM * kN));

  const int64_t bytes = *gemm_packed_bytes(DType::kF4E2M1, kN, kK, kBatch);
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
  TensorView to = TensorView::contiguous(back.data(), DType::kF4E2M1, {kBatch, kN, kK}, DeviceId{}).transposed();
  status = gemm_unpack_weights(*context, *gemm_packed_view(at, bytes), to);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(back, b);
}

TEST_F(GpuPackedWeights, OfOtherTypesAreRefused) {
  const int64_t bytes = *gemm_packed_bytes(DType::kBf16, 64, 64);
  const TensorView b = TensorView::contiguous(zeros(*on, 64 * 64 * 2), DType::kBf16, {64, 64}, on->spec().id);
  EXPECT_THAT(gemm_pack_weights(*context, b, zeros(*on, bytes), bytes).message(),
              testing::HasSubstr("argument 'b' is bf16 on cuda:0, allowed: e2m1"));
}

}  // namespace
}  // namespace tilewright
