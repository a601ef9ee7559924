// SPDX-License-Identifier: MIT
// gemm_amd compiles without a GPU, and every prebuilt kernel keeps to its budget: no spills, no scratch, the LDS that a
// workgroup may use, and registers for the waves that its launch bounds declare; of the largest tiles of bf16 and fp8 the
// matrix pipe is the limit. What limits each main loop is printed: ctest --verbose -R SlowAmdGemmKernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/fields.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "jit/amdgcn/inspection/inspection.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class SlowAmdGemmKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<std::string> objdump = amdgcn_compiler().tool("llvm-objdump");
    if (!objdump) GTEST_SKIP() << objdump.status().message();
  }

  Result<AmdInspection> inspect(const KernelKey& key, const std::string& folder, int64_t lds_bytes) const {
    const Result<CompileRequest> request = gemm_amd_family().source(key);
    if (!request) return request.status();
    if (Status s = make_folders(folder); !s) return s;
    const Result<std::string> file = amdgcn_compiler().compile(*request, folder, nullptr);
    if (!file) return file.status();
    const std::string image = *read_file(folder + "/" + *file);
    AmdInspectOptions options;
    options.source = request->source;
    options.launch_lds = lds_bytes;
    return inspect_amd_kernel(amdgcn_compiler(), std::as_bytes(std::span(image)), request->entry, options);
  }

  static void check(const KernelKey& key, const GemmAmdConfig& config, const AmdInspection& found) {
    SCOPED_TRACE(key.text);
    const AmdKernel& kernel = found.kernel;
    EXPECT_EQ(kernel.vgpr_spills, 0);
    EXPECT_EQ(kernel.sgpr_spills, 0);
    EXPECT_EQ(kernel.scratch_bytes, 0);
    EXPECT_FALSE(kernel.dynamic_stack);
    EXPECT_EQ(kernel.wave_size, config.wave);
    EXPECT_EQ(kernel.max_threads, gemm_amd_shape(config).threads);
    EXPECT_LE(kernel.lds_bytes + gemm_amd_shape(config).lds_bytes, find_arch(key.target)->shared_bytes);
    EXPECT_GT(found.declared_waves, 0);
    EXPECT_GE(found.occupancy.waves(found.occupancy.by_registers), found.declared_waves)
        << kernel.vgprs << " registers";
    EXPECT_GE(found.occupancy.workgroups, 1);
    ASSERT_TRUE(found.code_problem.ok()) << found.code_problem.message();
    EXPECT_TRUE(found.loop_at.has_value());
    EXPECT_GT(found.mix.count(InstructionClass::kMatrix), 0);
    EXPECT_EQ(found.mix.count(InstructionClass::kScratch), 0);
    EXPECT_TRUE(found.bound_problem.ok()) << found.bound_problem.message();
    fmt::print("{}: {} registers, {} of them accumulation, limit {}, matrix pipe {:.1f} % busy, {} moves\n", key.text,
               kernel.vgprs, kernel.agprs, found.bound.limit, 100 * found.bound.matrix_busy,
               found.mix.count(InstructionClass::kAccumulatorMove));
  }

  test::ScratchFolder scratch_;
};

TEST_P(SlowAmdGemmKernels, EveryPrebuiltOneKeepsToItsBudget) {
  const std::vector<KernelKey> keys = gemm_amd_family().builtin_keys(GetParam());
  ASSERT_GE(keys.size(), 12u);
  std::vector<GemmAmdConfig> configs(keys.size());
  std::vector<Result<AmdInspection>> found(keys.size(), Status(StatusCode::kInternal, "not compiled"));
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_TRUE(parse_fields(keys[i].config(), configs[i]).ok()) << keys[i].text;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < keys.size(); i = next++) {
      found[i] = inspect(keys[i], scratch_ / std::to_string(i), gemm_amd_shape(configs[i]).lds_bytes);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  int largest = 0;
  for (const GemmAmdConfig& config : configs) largest = std::max(largest, config.tile_m * config.tile_n);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(found[i].ok()) << keys[i].text << ": " << found[i].status().message();
    if (!found[i]) continue;
    check(keys[i], configs[i], *found[i]);
    const bool counted = configs[i].dtype == DType::kBf16 || dtype_bits(configs[i].dtype) == 8;
    if (!counted || configs[i].tile_m * configs[i].tile_n < largest) continue;
    EXPECT_TRUE(found[i]->bound.matrix_limit) << keys[i].text << ": the limit is " << found[i]->bound.limit;
    EXPECT_GE(found[i]->bound.matrix_busy, 0.85) << keys[i].text;
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
