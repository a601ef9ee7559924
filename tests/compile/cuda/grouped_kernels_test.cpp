// SPDX-License-Identifier: MIT
// The kernels of grouped_gemm for NVIDIA GPUs compile without a GPU, and keep to their budget.
#include <gtest/gtest.h>

#include "grouped_gemm/grouped_gemm_args.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/nvrtc/nvrtc_compiler.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class SlowGroupedKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  test::ScratchFolder scratch_;
};

TEST_P(SlowGroupedKernels, EveryPrebuiltOneKeepsToItsBudget) {
  const KernelFamily& family = grouped_gemm_generic_gpu_family();
  for (const KernelKey& key : family.builtin_keys(GetParam())) {
    SCOPED_TRACE(key.text);
    const Result<CompileRequest> request = family.source(key);
    ASSERT_TRUE(request.ok()) << request.status().message();
    const Result<std::string> file = nvrtc_compiler().compile(*request, scratch_.path(), nullptr);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const std::string image = *read_file(scratch_ / *file);
    const Result<CubinInfo> info = read_cubin(std::as_bytes(std::span(image)));
    ASSERT_TRUE(info.ok()) << info.status().message();
    ASSERT_EQ(info->kernels.size(), 1u);
    const CubinKernel& made = info->kernels.front();
    EXPECT_EQ(made.local_bytes, 0) << "spills";
    EXPECT_EQ(made.arg_bytes, static_cast<int64_t>(sizeof(GroupedGemmArgs)));
    EXPECT_LE(made.registers, 128);
    EXPECT_LE(family.launch_shared_bytes(key), 48 << 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SlowGroupedKernels, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace tilewright
