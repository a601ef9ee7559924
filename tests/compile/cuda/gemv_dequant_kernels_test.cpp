// SPDX-License-Identifier: MIT
// gemv_dequant_gpu compiles without a GPU in every cut, and its kernels keep to their budget: no spills, and the registers that
// their blocks have.
#include <gmock/gmock.h>

#include <set>

#include "core/fields.hpp"
#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/nvrtc/nvrtc_compiler.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class GemvDequantKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  void compile_prebuilt(const char* target) {
    SCOPED_TRACE(target);
    const std::vector<KernelKey> keys = gemv_dequant_gpu_family().builtin_keys(target);
    EXPECT_EQ(keys.size(), 3u);
    for (const KernelKey& key : keys) compile(key);
  }
  void compile_cuts(const std::string& text, const char* target = "sm_90a") {
    SCOPED_TRACE(text);
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    DeviceSpec device;
    device.arch = find_arch(target);
    device.units = 132;
    const std::vector<Candidate> found = gemv_dequant_gpu_family().candidates(erase(*problem), device);
    ASSERT_FALSE(found.empty());
    for (const Candidate& candidate : found) compile(candidate.step.key);
  }

 private:
  void compile(const KernelKey& key) {
    if (!seen_.insert(key.text).second) return;
    SCOPED_TRACE(key.text);
    const Result<CompileRequest> request = gemv_dequant_gpu_family().source(key);
    ASSERT_TRUE(request.ok()) << request.status().message();
    const std::string folder = scratch_ / std::to_string(seen_.size());
    ASSERT_TRUE(make_folders(folder).ok());
    const Result<std::string> file = nvrtc_compiler().compile(*request, folder, nullptr);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const std::string image = *read_file(folder + "/" + *file);
    const Result<CubinInfo> info = read_cubin(std::as_bytes(std::span(image)));
    ASSERT_TRUE(info.ok()) << info.status().message();
    ASSERT_EQ(info->kernels.size(), 1u);
    const CubinKernel& made = info->kernels.front();
    GemvDequantGpuConfig config;
    ASSERT_TRUE(parse_fields(key.config(), config).ok());
    EXPECT_EQ(made.shared_bytes, 0) << "static shared memory";
    EXPECT_EQ(made.local_bytes, 0) << "spills";
    EXPECT_EQ(made.max_threads, gemv_dequant_gpu_threads(config));
    EXPECT_LE(made.registers * gemv_dequant_gpu_threads(config) * config.blocks, kRegistersOfAnSm);
  }

  static constexpr int kRegistersOfAnSm = 65536;
  std::set<std::string> seen_;
  test::ScratchFolder scratch_;
};

class SlowGemvDequantKernels : public GemvDequantKernels {};

TEST_F(GemvDequantKernels, PrebuiltOnesKeepToTheirBudget) {
  for (const char* target : {"sm_80", "sm_90a"}) compile_prebuilt(target);
}

TEST_F(SlowGemvDequantKernels, EveryCutOfGroupsThatAreSummedApartKeepsToItsBudget) {
  for (const int m : {1, 2, 4, 8, 16}) {
    compile_cuts(fmt::format("m={}:n=57344:k=8192:a=bf16:b=i4:scale_b=f16.1x128", m));
  }
  compile_cuts("m=16:n=57344:k=8192:a=f16:b=e2m1:scale_b=e8m0.1x32:bias=f32:act=gelu:d=f32");
  compile_cuts("m=8:n=57344:k=8192:a=bf16:b=i8:scale_b=f32.1x128");
}

TEST_F(SlowGemvDequantKernels, EveryCutWithZeroPointsKeepsToItsBudget) {
  for (const int m : {1, 8, 16}) {
    compile_cuts(fmt::format("m={}:n=57344:k=8192:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", m));
  }
  compile_cuts("m=4:n=57344:k=8192:a=f16:b=i4:scale_b=f32.1x32:zero_b=i4");
  compile_cuts("m=4:n=57344:k=8192:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8");
}

TEST_F(SlowGemvDequantKernels, EveryCutOfOtherWeightsKeepsToItsBudget) {
  compile_cuts("m=1:n=57344:k=8192:a=bf16:b=e2m1:scale_b=e8m0.1x32");
  compile_cuts("m=8:n=57344:k=8192:a=bf16:b=e5m2:gate=interleaved:act=silu");
  compile_cuts("m=1:n=57344:k=8192:a=bf16:b=i4:scale_b=f16.1x128:gate=separated:act=silu");
  compile_cuts("m=2:n=57344:k=8192:a=f16:b=e4m3:scale_b=f32");
  compile_cuts("m=1:n=57344:k=8192:a=bf16:b=i4:scale_b=f16.1x128:c=bf16", "sm_80");
}

}  // namespace
}  // namespace tilewright
