// SPDX-License-Identifier: MIT
// Weights of 4 bits that an NVIDIA GPU packed, in memory of the host: recognised, unpacked exactly, and not multiplied as if a CPU had packed it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "gemm/gemm_packed_fragments.hpp"
#include "op/gemm/built_context.hpp"
#include "tilewright/grouped_gemm.hpp"

namespace tilewright {
namespace {

constexpr int64_t kN = 83, kK = 300, kBatch = 2;

unsigned code_at(int64_t batch, int64_t k, int64_t n) {
  return static_cast<unsigned>(batch * 7 + k * 3 + n * 5 + k / 16) % 16;
}

class PackedFragments : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    size = *gemm_packed_bytes(dtype, kN, kK, kBatch, {DeviceKind::kCuda, 0});
    memory.assign(static_cast<size_t>(size) + 64, 0);
    data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    GemmPackedHeader header{};
    header.magic = kPackedMagic;
    header.version = kPackedVersion;
    header.dtype = dtype;
    header.kp = kFragmentK;
    header.n = kN, header.k = kK, header.batch = kBatch;
    header.batch_bytes = packed_fragments_bytes(kN, kK);
    header.total_bytes = size;
    std::memcpy(data, &header, sizeof(header));
    for (int64_t i = 0; i < kBatch * kK * kN; ++i) {
      const int64_t batch = i / (kK * kN), k = i / kN % kK, n = i % kN;
      uint8_t* const at = data + kPackedFragmentsAt + batch * header.batch_bytes + fragment_word(dtype, kK, k, n) * 4;
      uint32_t word;
      std::memcpy(&word, at, sizeof(word));
      const int value = fragment_place(dtype, static_cast<int>(k % kFragmentK)).value;
      word |= fragment_bits(dtype, value, code_at(batch, k, n));
      std::memcpy(at, &word, sizeof(word));
    }
  }

  const DType dtype = GetParam();
  std::vector<uint8_t> memory;
  uint8_t* data = nullptr;
  int64_t size = 0;
};

TEST_P(PackedFragments, ComeBackExactlyInEitherOrder) {
  const Result<TensorView> view = gemm_packed_view(data, size);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->layout, Layout::kPackedGemmFragments);
  for (const bool along_k : {false, true}) {
    const int64_t row = along_k ? kK : kN + 1;  // rows of whole bytes
    std::vector<uint8_t> plain(static_cast<size_t>(kBatch * (along_k ? kN : kK) * row / 2), 0xFF);
    TensorView b = TensorView::contiguous(plain.data(), dtype, {kBatch, kK, kN}, DeviceId{});
    b.stride = {(along_k ? kN : kK) * row, along_k ? 1 : row, along_k ? row : 1};
    const Status status = gemm_unpack_weights(test::built_context(), *view, b);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < kBatch * kK * kN; ++i) {
      const int64_t batch = i / (kK * kN), k = i / kN % kK, n = i % kN;
      const int64_t at = batch * b.stride[0] + k * b.stride[1] + n * b.stride[2];
      ASSERT_EQ(plain[static_cast<size_t>(at / 2)] >> at % 2 * 4 & 15, static_cast<int>(code_at(batch, k, n)))
          << batch << ", " << k << ", " << n;
    }
  }
}

TEST_P(PackedFragments, AreRefusedOnACpu) {
  std::vector<uint16_t> a(static_cast<size_t>(kBatch * kK)), d(static_cast<size_t>(kBatch * kN));
  GemmCall call;
  call.a = TensorView::contiguous(a.data(), DType::kBf16, {kBatch, 1, kK}, DeviceId{});
  call.b = *gemm_packed_view(data, size);
  call.d = TensorView::contiguous(d.data(), DType::kBf16, {kBatch, 1, kN}, DeviceId{});
  EXPECT_THAT(
      gemm(test::built_context(), call).message(),
      testing::HasSubstr(fmt::format(
          "argument 'b' is on cpu, packed {} of an NVIDIA GPU, allowed: packed where it is used", dtype_name(dtype))));
}

TEST_P(PackedFragments, AreRefusedByGroupedGemmOfACpu) {
  std::vector<uint16_t> a(static_cast<size_t>(kK)), d(static_cast<size_t>(kN));
  std::vector<int32_t> sizes = {1, 0};
  GroupedGemmCall call;
  call.gemm.a = TensorView::contiguous(a.data(), DType::kBf16, {1, kK});
  call.gemm.d = TensorView::contiguous(d.data(), DType::kBf16, {1, kN});
  call.gemm.b = *gemm_packed_view(data, size);
  call.sizes = TensorView::contiguous(sizes.data(), DType::kI32, {kBatch});
  EXPECT_THAT(grouped_gemm(test::built_context(), call).message(),
              testing::HasSubstr(
                  fmt::format("grouped_gemm: argument 'b' is on cpu, packed {} of an NVIDIA GPU", dtype_name(dtype))));
}

TEST_P(PackedFragments, OfAnotherLayoutAreNotRecognised) {
  data[offsetof(GemmPackedHeader, kp)] = 64;
  EXPECT_THAT(gemm_packed_view(data, size).status().message(), testing::HasSubstr("header and size disagree"));
}

INSTANTIATE_TEST_SUITE_P(Types, PackedFragments, testing::Values(DType::kF4E2M1, DType::kI4, DType::kU4),
                         [](const auto& given) { return std::string(dtype_name(given.param)); });

}  // namespace
}  // namespace tilewright
