// SPDX-License-Identifier: MIT
// A GEMM as kernels for gfx942 are written, under emulation: against float64, without a fault, and with planted bugs.
#include <cmath>

#include "emulated/amd/amd_kernels.hpp"

namespace tilewright::emu {
namespace {

AmdKernels& kernels() {
  static AmdKernels all(R"(
typedef short Short4 __attribute__((vector_size(8)));
typedef short Short8 __attribute__((vector_size(16)));
typedef float Float4 __attribute__((vector_size(16)));
// C = A * B^T; a workgroup of four waves has 64 x 64 of C, a step 32 of K. Rows of LDS are padded by 4 elements.
void gemm(const short* a, const short* b, float* c, int m, int n, int k, int barrier) {
  constexpr int kRow = 36;
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  short* lds_a = reinterpret_cast<short*>(bytes);
  short* lds_b = lds_a + 64 * kRow;
  const int t = __builtin_amdgcn_workitem_id_x(), wave = t / 64, row = t % 16, group = t % 64 / 16;
  const int first_m = __builtin_amdgcn_workgroup_id_x() * 64, first_n = __builtin_amdgcn_workgroup_id_y() * 64;
  const auto from_a = __builtin_amdgcn_make_buffer_rsrc(const_cast<short*>(a), 0, m * k * 2, 0);
  const auto from_b = __builtin_amdgcn_make_buffer_rsrc(const_cast<short*>(b), 0, n * k * 2, 0);
  Float4 sums[4] = {};
  for (int step = 0; step < k; step += 32) {
    const int r = t / 4, at = t % 4 * 8;
    const auto words_a = __builtin_amdgcn_raw_buffer_load_b128(from_a, ((first_m + r) * k + step + at) * 2, 0, 0);
    const auto words_b = __builtin_amdgcn_raw_buffer_load_b128(from_b, ((first_n + r) * k + step + at) * 2, 0, 0);
    __builtin_memcpy(lds_a + r * kRow + at, &words_a, 16);
    __builtin_memcpy(lds_b + r * kRow + at, &words_b, 16);
    __builtin_amdgcn_s_barrier();
    for (int inner = 0; inner < 32; inner += 16) {
      const Short4 x = *reinterpret_cast<const Short4*>(lds_a + (wave * 16 + row) * kRow + inner + group * 4);
      for (int j = 0; j < 4; ++j) {
        const Short4 y = *reinterpret_cast<const Short4*>(lds_b + (j * 16 + row) * kRow + inner + group * 4);
        sums[j] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, sums[j], 0, 0, 0);
      }
    }
    if (barrier) __builtin_amdgcn_s_barrier();
  }
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i) {
      const int at_m = first_m + wave * 16 + group * 4 + i, at_n = first_n + j * 16 + row;
      if (at_m < m && at_n < n) c[at_m * n + at_n] = sums[j][i];
    }
}
TILEWRIGHT_EMULATED_ENTRY(run_gemm, gemm)
)");
  return all;
}

class AmdEmulationGemm : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }
};
INSTANTIATE_TEST_SUITE_P(Targets, AmdEmulationGemm, testing::Values("gfx90a", "gfx942", "gfx950"));

TEST_P(AmdEmulationGemm, RaggedProductsAreRightAndAMissingBarrierIsFound) {
  constexpr int kM = 100, kN = 77, kK = 96;
  const auto value = [](short code) {
    return static_cast<double>(__builtin_bit_cast(float, static_cast<uint32_t>(static_cast<uint16_t>(code)) << 16));
  };
  std::vector<short> a(kM * kK), b(kN * kK);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<short>((i % 3 == 0 ? 0xbf80 : 0x3f80) + i * 7 % 61);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<short>((i % 5 == 0 ? 0xbf80 : 0x3f00) + i * 5 % 53);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const int barrier : {1, 0}) {
      std::vector<float> c(kM * kN, NAN);
      AmdLaunch launch(kernels().of(GetParam()), "run_gemm");
      launch.buffer("a", &a).buffer("b", &b).buffer("c", &c, false).value(kM).value(kN).value(kK).value(barrier);
      launch.shape({2, 2, 1}, {256, 1, 1}, 2 * 64 * 36 * 2);
      launch.launch.seed = seed;
      const EmulatedReport report = launch.run();
      if (barrier == 0) {
        EXPECT_NE(report.find(FaultKind::kLdsRace), nullptr);
        continue;
      }
      ASSERT_TRUE(report.status().ok()) << report.status().to_string();
      for (int i = 0; i < kM; ++i) {
        for (int j = 0; j < kN; ++j) {
          double sum = 0, size = 0;
          for (int k = 0; k < kK; ++k) {
            const double product = value(a[i * kK + k]) * value(b[j * kK + k]);
            sum += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(c[i * kN + j], sum, size * kK * 0x1p-24) << i << ", " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright::emu
