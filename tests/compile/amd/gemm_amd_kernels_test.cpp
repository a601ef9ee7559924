// SPDX-License-Identifier: MIT
// gemm_amd compiles without a GPU, and every prebuilt kernel keeps to its budget: no spills, no scratch, the LDS that a
// workgroup may use, and registers for the waves that its launch bounds declare; of the largest tiles of bf16 and fp8 the
// matrix pipe is the limit. What limits each main loop is printed: ctest --verbose -R SlowAmdGemmKernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/amd/amd_kernels.hpp"
#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {
namespace {

class AmdGemmKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<std::string> objdump = amdgcn_compiler().tool("llvm-objdump");
    if (!objdump) GTEST_SKIP() << objdump.status().message();
  }

  static void check(const KernelKey& key, const GemmAmdConfig& config, const AmdInspection& found) {
    SCOPED_TRACE(key.text);
    const AmdKernel& kernel = found.kernel;
    test::check_budget(found, config.wave, gemm_amd_shape(config).threads);
    EXPECT_LE(kernel.lds_bytes + gemm_amd_shape(config).lds_bytes, find_arch(key.target)->shared_bytes);
    fmt::print("{}: {} registers, {} of them accumulation, limit {}, matrix pipe {:.1f} % busy, {} moves\n", key.text,
               kernel.vgprs, kernel.agprs, found.bound.limit, 100 * found.bound.matrix_busy,
               found.mix.count(InstructionClass::kAccumulatorMove));
  }

  test::ScratchFolder scratch_;
};
class SlowAmdGemmKernels : public AmdGemmKernels {};

// The first of the list is the largest tile of bf16.
TEST_P(AmdGemmKernels, TheMostUsedOneKeepsToItsBudget) {
  const std::vector<KernelKey> keys = gemm_amd_family().builtin_keys(GetParam());
  ASSERT_FALSE(keys.empty());
  GemmAmdConfig config;
  ASSERT_TRUE(parse_fields(keys.front().config(), config).ok());
  EXPECT_EQ(config.dtype, DType::kBf16);
  const Result<test::AmdKernelFound> found = test::inspect_amd(gemm_amd_family(), keys.front(), scratch_.path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  check(keys.front(), config, found->inspection);
  EXPECT_TRUE(found->inspection.bound.matrix_limit) << "the limit is " << found->inspection.bound.limit;
  EXPECT_GE(found->inspection.bound.matrix_busy, 0.85);
}
INSTANTIATE_TEST_SUITE_P(Targets, AmdGemmKernels, testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"));

TEST_P(SlowAmdGemmKernels, EveryPrebuiltOneKeepsToItsBudget) {
  const std::vector<KernelKey> keys = gemm_amd_family().builtin_keys(GetParam());
  ASSERT_GE(keys.size(), 12u);
  std::vector<GemmAmdConfig> configs(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_TRUE(parse_fields(keys[i].config(), configs[i]).ok()) << keys[i].text;
  const auto found = test::inspect_all_amd(gemm_amd_family(), keys, scratch_);
  int largest = 0;
  for (const GemmAmdConfig& config : configs) largest = std::max(largest, config.tile_m * config.tile_n);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(found[i].ok()) << keys[i].text << ": " << found[i].status().message();
    if (!found[i]) continue;
    const AmdInspection& one = found[i]->inspection;
    check(keys[i], configs[i], one);
    const bool counted = configs[i].dtype == DType::kBf16 || dtype_bits(configs[i].dtype) <= 8;
    if (!counted || configs[i].tile_m * configs[i].tile_n < largest) continue;
    EXPECT_TRUE(one.bound.matrix_limit) << keys[i].text << ": the limit is " << one.bound.limit;
    EXPECT_GE(one.bound.matrix_busy, 0.85) << keys[i].text;
  }
}

// Operands whose strides allow no whole chunks: a lane has a register, an offset and a test for each element.
// The tests of lanes may fill the scalar registers: those go to lanes of vector registers, not to memory.
TEST_P(SlowAmdGemmKernels, NoneThatCopiesByElementsSpills) {
  const ArchSpec* arch = find_arch(GetParam());
  const DeviceSpec device = spec_of_part(*arch, arch->parts.front());
  std::vector<const char*> dtypes = {"bf16", "i8"};
  if (arch->wave_size == 64) dtypes.push_back("f32");
  std::vector<KernelKey> keys;
  // A along K and B along N, and both along M and N.
  for (const char* layout : {"rrr", "crr"}) {
    for (const char* dtype : dtypes) {
      const auto text = fmt::format("m=515:n=517:k=519:a={}:layout={}:bias=f32:act=silu", dtype, layout);
      const Result<GemmProblem> problem = parse_gemm_problem(text);
      ASSERT_TRUE(problem.ok()) << problem.status().message();
      const size_t before = keys.size();
      for (const Candidate& candidate : gemm_amd_family().candidates(erase(*problem), device)) {
        const std::string& key = candidate.step.key.text;
        const auto same = [&](const KernelKey& other) { return other.text == key; };
        if (std::none_of(keys.begin(), keys.end(), same)) keys.push_back(candidate.step.key);
      }
      EXPECT_GE(keys.size(), before + 3) << text;
    }
  }
  const auto found = test::inspect_all_amd(gemm_amd_family(), keys, scratch_);
  for (size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(keys[i].text);
    GemmAmdConfig config;
    ASSERT_TRUE(parse_fields(keys[i].config(), config).ok());
    EXPECT_TRUE(config.a_copy == 0 && config.b_copy == 0);
    ASSERT_TRUE(found[i].ok()) << found[i].status().message();
    const AmdKernel& kernel = found[i]->inspection.kernel;
    EXPECT_EQ(kernel.vgpr_spills, 0);
    EXPECT_EQ(kernel.scratch_bytes, 0);
  }
}

// Each target is a ctest entry of its own: a hundred compiles take minutes.
INSTANTIATE_TEST_SUITE_P(Gfx90a, SlowAmdGemmKernels, testing::Values("gfx90a"));
INSTANTIATE_TEST_SUITE_P(Gfx942, SlowAmdGemmKernels, testing::Values("gfx942"));
INSTANTIATE_TEST_SUITE_P(Gfx950, SlowAmdGemmKernels, testing::Values("gfx950"));
INSTANTIATE_TEST_SUITE_P(Gfx1100, SlowAmdGemmKernels, testing::Values("gfx1100"));
INSTANTIATE_TEST_SUITE_P(Gfx1201, SlowAmdGemmKernels, testing::Values("gfx1201"));

}  // namespace
}  // namespace tilewright
