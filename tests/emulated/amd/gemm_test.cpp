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
enum Bug { kNone, kNoBarrier, kOneColumnMore, kLaneMap, kUninitialisedSums, kNoAtomics };
// C = A * B^T; a workgroup of four waves has 64 x 64 of C, a step 32 of K. Rows of LDS are padded by 4 elements. Of several
// splits each has every so many steps and adds its part to C.
void gemm(const short* a, const short* b, float* c, int m, int n, int k, int splits, int bug) {
  constexpr int kRow = 36;
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  short* lds_a = reinterpret_cast<short*>(bytes);
  short* lds_b = lds_a + 64 * kRow;
  const int t = __builtin_amdgcn_workitem_id_x(), wave = t / 64, row = t % 16, group = t % 64 / 16;
  const int split = __builtin_amdgcn_workgroup_id_z();
  const int first_m = __builtin_amdgcn_workgroup_id_x() * 64, first_n = __builtin_amdgcn_workgroup_id_y() * 64;
  const auto from_a = __builtin_amdgcn_make_buffer_rsrc(const_cast<short*>(a), 0, m * k * 2, 0);
  const auto from_b = __builtin_amdgcn_make_buffer_rsrc(const_cast<short*>(b), 0, n * k * 2, 0);
  Float4 sums[4];
  for (int j = 0; j < 4 && bug != kUninitialisedSums; ++j) sums[j] = Float4{};
  for (int step = split * 32; step < k; step += splits * 32) {
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
    if (bug != kNoBarrier) __builtin_amdgcn_s_barrier();
  }
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i) {
      const int of_lane = bug == kLaneMap ? row / 4 * 4 : group * 4, column = bug == kLaneMap ? row % 4 * 4 + group : row;
      const int at_m = first_m + wave * 16 + of_lane + i, at_n = first_n + j * 16 + column;
      if (at_m >= m || at_n >= n + (bug == kOneColumnMore)) continue;
      float* const at = c + at_m * n + at_n;
      if (splits == 1) {
        *at = sums[j][i];
      } else if (bug == kNoAtomics) {
        *at += sums[j][i];
      } else {
        __builtin_amdgcn_global_atomic_fadd_f32(at, sums[j][i]);
      }
    }
}
TILEWRIGHT_EMULATED_ENTRY(run_gemm, gemm)
)");
  return all;
}

enum Bug : int { kNone, kNoBarrier, kOneColumnMore, kLaneMap, kUninitialisedSums, kNoAtomics };

class AmdEmulationGemm : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int kM = 100, kN = 77, kK = 96;
  void SetUp() override {
    TILEWRIGHT_SKIP_WITHOUT_FIBERS();
    for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<short>((i % 3 == 0 ? 0xbf80 : 0x3f80) + i * 7 % 61);
    for (size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<short>((i % 5 == 0 ? 0xbf80 : 0x3f00) + i * 5 % 53);
  }

  // C is not written before (NaN), or zeros.
  EmulatedReport run(int bug, int splits = 1, bool zeroed = false, uint64_t seed = 1) {
    c_.assign(c_.size(), zeroed ? 0 : NAN);
    AmdLaunch launch(kernels().of(GetParam()), "run_gemm");
    launch.buffer("a", &a_).buffer("b", &b_).buffer("c", &c_, zeroed).value(kM).value(kN).value(kK);
    launch.value(splits).value(bug).shape({2, 2, static_cast<uint32_t>(splits)}, {256, 1, 1}, 2 * 64 * 36 * 2);
    launch.launch.seed = seed;
    return launch.run();
  }

  // The elements of C that are not what float64 says.
  int wrong() const {
    const auto value = [](short code) {
      return static_cast<double>(__builtin_bit_cast(float, static_cast<uint32_t>(static_cast<uint16_t>(code)) << 16));
    };
    int count = 0;
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        double sum = 0, size = 0;
        for (int k = 0; k < kK; ++k) {
          const double product = value(a_[i * kK + k]) * value(b_[j * kK + k]);
          sum += product;
          size += std::abs(product);
        }
        count += std::abs(c_[i * kN + j] - sum) <= size * kK * 0x1p-24 ? 0 : 1;
      }
    }
    return count;
  }

 private:
  std::vector<short> a_ = std::vector<short>(kM * kK), b_ = std::vector<short>(kN * kK);
  std::vector<float> c_ = std::vector<float>(kM * kN);
};
INSTANTIATE_TEST_SUITE_P(Targets, AmdEmulationGemm, testing::Values("gfx90a", "gfx942", "gfx950"));

TEST_P(AmdEmulationGemm, RaggedProductsAreRightAndAMissingBarrierIsFound) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const EmulatedReport report = run(kNone, 1, false, seed);
    ASSERT_TRUE(report.status().ok()) << report.status().to_string();
    EXPECT_EQ(wrong(), 0);
    EXPECT_NE(run(kNoBarrier, 1, false, seed).find(FaultKind::kLdsRace), nullptr);
  }
}

TEST_P(AmdEmulationGemm, SplitsAddUpInZerosAndNowhereElse) {
  const EmulatedReport right = run(kNone, 3, true);
  ASSERT_TRUE(right.status().ok()) << right.status().to_string();
  EXPECT_EQ(wrong(), 0);
  const EmulatedReport report = run(kNone, 3, false);
  const Fault* fault = report.find(FaultKind::kUninitialisedGlobal);
  ASSERT_NE(fault, nullptr) << report.status().to_string();
  EXPECT_EQ(fault->buffer, "c");
  for (const Fault& each : report.faults) EXPECT_EQ(each.kind, FaultKind::kUninitialisedGlobal);
}

TEST_P(AmdEmulationGemm, SplitsThatAddWithoutAtomicsAreARace) {
  const EmulatedReport report = run(kNoAtomics, 3, true);
  const Fault* fault = report.find(FaultKind::kGlobalRace);
  ASSERT_NE(fault, nullptr) << report.status().to_string();
  EXPECT_EQ(fault->buffer, "c");
  EXPECT_TRUE(fault->party.writes);
}

// Into the next row, whose first element is another workgroup's, and beyond the last.
TEST_P(AmdEmulationGemm, AColumnMoreThanThereIsIsFound) {
  const EmulatedReport report = run(kOneColumnMore);
  EXPECT_NE(report.find(FaultKind::kGlobalRace), nullptr) << report.status().to_string();
  EXPECT_NE(report.find(FaultKind::kGlobalOutOfBounds), nullptr) << report.status().to_string();
}

// Registers hold anything until they are written, and any element of a tile has a lane: the numbers tell.
TEST_P(AmdEmulationGemm, AWrongLaneMapAndUninitialisedSumsMakeWrongNumbers) {
  EXPECT_TRUE(run(kLaneMap).status().ok());
  EXPECT_GT(wrong(), kM * kN / 2);
  run(kUninitialisedSums);
  EXPECT_EQ(wrong(), kM * kN);
}

}  // namespace
}  // namespace tilewright::emu
