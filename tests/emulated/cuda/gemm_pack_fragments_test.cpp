// SPDX-License-Identifier: MIT
// gemm_pack_fragments, the source that NVRTC compiles, on the host: every code of every place, any strides, and zeros where nothing is.
#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/plan_check.hpp"
// After the words of CUDA.
#include "gemm/gpu/gemm_pack_fragments.cuh"

#include <fmt/format.h>

#include <vector>

#include "ops/gemm/families/gpu/gemm_pack_gpu_family.hpp"

namespace tilewright {
namespace {

struct Strides {
  int64_t batch, k, n;
};
unsigned code_of(int64_t batch, int64_t k, int64_t n) {
  return static_cast<unsigned>(batch * 5 + k * 7 + n * 3 + k / 16) % 16;
}

void check(DType dtype, int64_t batch, int64_t k, int64_t n, const Strides& stride) {
  SCOPED_TRACE(fmt::format("{} {} x {} x {}, strides {}, {}, {}", dtype_name(dtype), batch, k, n, stride.batch,
                           stride.k, stride.n));
  std::vector<uint8_t> b(
      static_cast<size_t>((batch - 1) * stride.batch + (k - 1) * stride.k + (n - 1) * stride.n) / 2 + 1, 0);
  for (int64_t i = 0; i < batch * k * n; ++i) {
    const int64_t entry = i / (k * n), row = i / n % k, column = i % n;
    const int64_t at = entry * stride.batch + row * stride.k + column * stride.n;
    b[static_cast<size_t>(at / 2)] |= static_cast<uint8_t>(code_of(entry, row, column) << at % 2 * 4);
  }
  const int64_t bytes = packed_fragments_bytes(n, k), columns = packed_fragment_groups(n) * kFragmentGroup;
  std::vector<uint32_t> packed(static_cast<size_t>(batch * bytes / 4), 0xFFFFFFFF);
  GemmPackArgs args{};
  args.n = n, args.k = k, args.batch = batch;
  args.b = b.data();
  args.stride_b_batch = stride.batch, args.stride_b_k = stride.k, args.stride_b_n = stride.n;
  args.packed = packed.data();
  args.packed_batch_bytes = bytes;
  args.dtype = dtype;
  emulated::EmulatedCudaDevice device("sm_90a");
  const emulated::HostKernel kernel(
      [](const void* given) { gemm_pack_fragments(*static_cast<const GemmPackArgs*>(given)); });
  const LaunchShape shape = gemm_pack_fragments().shape(columns / kPanelColumns * batch);
  const Status status = device.launch(kernel, std::as_bytes(std::span(&args, 1)), shape, {});
  ASSERT_TRUE(status.ok()) << status.message();
  // Each place holds the element it is of, and all others zeros.
  for (int64_t entry = 0; entry < batch; ++entry) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < packed_fragments(k) * kFragmentK; ++row) {
        const uint32_t word = packed[static_cast<size_t>(entry * bytes / 4 + fragment_word(dtype, k, row, column))];
        const unsigned wanted = row < k && column < n ? code_of(entry, row, column) : 0;
        ASSERT_EQ(fragment_code(dtype, row, word), wanted) << entry << ", " << row << ", " << column;
      }
    }
  }
}

TEST(EmulatedGemmPackFragments, EachElementIsWhereTheKernelReadsIt) {
  for (const DType dtype : {DType::kF4E2M1, DType::kI4, DType::kU4}) {
    check(dtype, 1, 256, 32, {0, 1, 256});
    check(dtype, 1, 260, 88, {0, 1, 260});
    check(dtype, 3, 100, 21, {21 * 100, 1, 100});
    check(dtype, 2, 130, 17, {17 * 130, 17, 1});
    check(dtype, 1, 1, 1, {0, 1, 1});
    check(dtype, 2, 40, 5, {1001, 3, 127});
  }
}

TEST(EmulatedGemmPackFragments, EachBitOfAFragmentIsOneElementsOwn) {
  for (const DType dtype : {DType::kF4E2M1, DType::kI4}) {
    std::vector<uint32_t> seen(16);  // words of a column: four of each thread
    for (int k = 0; k < kFragmentK; ++k) {
      const FragmentPlace at = fragment_place(dtype, k);
      EXPECT_EQ(fragment_k(dtype, at), k);
      const uint32_t bits = fragment_bits(dtype, at.value, 15);
      uint32_t& word = seen[static_cast<size_t>(at.quarter * 4 + at.word)];
      EXPECT_EQ(word & bits, 0u) << k;
      word |= bits;
      for (unsigned code = 0; code < 16; ++code)
        EXPECT_EQ(fragment_code(dtype, k, fragment_bits(dtype, at.value, code) | ~bits), code);
    }
    EXPECT_EQ(seen, std::vector<uint32_t>(16, 0xFFFFFFFFu));
  }
}

TEST(EmulatedGemmPackFragments, APairIsFoundAmongAllOthersBits) {
  for (uint32_t i = 0; i < 4096; ++i) {
    const uint32_t word = i * 2654435761u ^ i << 20;
    uint32_t plain = 0;
    for (int value = 0; value < 8; ++value) plain |= e2m1_fragment_code(value, word) << 4 * value;
    EXPECT_EQ(e2m1_fragment_as_bf16<0>(word), e2m1_as_bf16<0>(plain));
    EXPECT_EQ(e2m1_fragment_as_bf16<1>(word), e2m1_as_bf16<1>(plain));
    EXPECT_EQ(e2m1_fragment_as_bf16<2>(word), e2m1_as_bf16<2>(plain));
    EXPECT_EQ(e2m1_fragment_as_bf16<3>(word), e2m1_as_bf16<3>(plain));
  }
}

}  // namespace
}  // namespace tilewright
