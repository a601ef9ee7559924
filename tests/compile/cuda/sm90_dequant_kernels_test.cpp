// SPDX-License-Identifier: MIT
// gemm_sm90_dequant, gemm_sm90_dequant_many and grouped_sm90_dequant compile without a GPU in every tile, and their kernels keep to their budget: no spills,
// the registers that their blocks have, products that ptxas does not serialise.
#include <gmock/gmock.h>

#include <set>

#include "core/fields.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/nvrtc/nvrtc_compiler.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

constexpr int kRegistersOfAnSm = 65536;

class Sm90DequantKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  void compile(const KernelKey& key, const KernelFamily& family) {
    if (!seen_.insert(key.text).second) return;
    SCOPED_TRACE(key.text);
    const Result<CompileRequest> request = family.source(key);
    ASSERT_TRUE(request.ok()) << request.status().message();
    const std::string folder = scratch_ / std::to_string(seen_.size());
    ASSERT_TRUE(make_folders(folder).ok());
    const Result<std::string> file = nvrtc_compiler().compile(*request, folder, nullptr);
    ASSERT_TRUE(file.ok()) << file.status().message();
    // ptxas then waits for each product before it issues the next.
    EXPECT_THAT(*read_file(folder + "/" + kCompileLogFile), testing::Not(testing::HasSubstr("serialized")));
    const std::string image = *read_file(folder + "/" + *file);
    const Result<CubinInfo> info = read_cubin(std::as_bytes(std::span(image)));
    ASSERT_TRUE(info.ok()) << info.status().message();
    ASSERT_EQ(info->kernels.size(), 1u);
    const CubinKernel& made = info->kernels.front();
    GemmSm90DequantConfig config;
    ASSERT_TRUE(parse_fields(key.config(), config).ok());
    EXPECT_EQ(made.shared_bytes, 0) << "static shared memory";
    EXPECT_EQ(made.overtaking_arrivals, 0) << "a stage may go back before it is read";
    EXPECT_LE(made.local_bytes, config.splits == 0 ? kSpillBudget : 0) << "spills";
    EXPECT_EQ(made.max_threads, gemm_sm90_dequant_threads(config));
    EXPECT_LE(made.registers * gemm_sm90_dequant_threads(config) * config.blocks, kRegistersOfAnSm);
  }
  void compile_tiles(const std::string& text) {
    SCOPED_TRACE(text);
    compile_candidates(gemm_sm90_dequant_family(), parse_gemm_problem(text));
  }
  void compile_many(const std::string& text) {
    SCOPED_TRACE(text);
    compile_candidates(gemm_sm90_dequant_many_family(), parse_gemm_problem(text));
  }
  void compile_groups(const std::string& text) {
    SCOPED_TRACE(text);
    compile_candidates(grouped_sm90_dequant_family(), parse_grouped_gemm_problem(text));
  }

 private:
  // Of each tile the candidates that do not split and whose parts meet, and of the first one that equal shares make.
  template <class Problem>
  void compile_candidates(const KernelFamily& family, const Result<Problem>& problem) {
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    DeviceSpec device;
    device.arch = find_arch("sm_90a");
    device.units = 132;
    const std::vector<Candidate> found = family.candidates(erase(*problem), device);
    ASSERT_FALSE(found.empty());
    int evens[2] = {};  // scales step by step, and whole
    for (const Candidate& candidate : found) {
      GemmSm90DequantConfig c;
      ASSERT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
      if (c.splits == 1 || c.cluster > 1 || (c.splits == 0 && evens[c.scale_row != 0]++ == 0))
        compile(candidate.step.key, family);
    }
  }

  static constexpr int kSpillBudget = 32;  // addresses of the exchange; in the loop over K one is read once a step
  std::set<std::string> seen_;
  test::ScratchFolder scratch_;
};

class SlowSm90DequantKernels : public Sm90DequantKernels {};

TEST_F(Sm90DequantKernels, PrebuiltOnesKeepToTheirBudget) {
  const std::vector<KernelKey> keys = gemm_sm90_dequant_family().builtin_keys("sm_90a");
  EXPECT_EQ(keys.size(), 4u);
  for (const KernelKey& key : keys) compile(key, gemm_sm90_dequant_family());
  const std::vector<KernelKey> many = gemm_sm90_dequant_many_family().builtin_keys("sm_90a");
  EXPECT_EQ(many.size(), 1u);
  for (const KernelKey& key : many) compile(key, gemm_sm90_dequant_many_family());
}

TEST_F(SlowSm90DequantKernels, EveryTileOfWeightsThatTakeTheirScalesAlongKeepsToItsBudget) {
  for (const int m : {1, 16, 32, 64, 128}) {
    compile_tiles(fmt::format("m={}:n=57344:k=8192:a=bf16:b=e2m1:scale_b=e8m0.1x32", m));
    compile_tiles(fmt::format("m={}:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=128", m));
    compile_tiles(fmt::format("m={}:n=5760:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:batch=128", m));
  }
  compile_tiles("m=16:n=57344:k=8192:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu");
  compile_tiles("m=16:n=57344:k=8192:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated:act=silu");
}

TEST_F(SlowSm90DequantKernels, EveryTileOfGroupsThatAreSummedApartKeepsToItsBudget) {
  for (const int m : {1, 16, 32, 64, 128}) {
    compile_tiles(fmt::format("m={}:n=57344:k=8192:a=bf16:b=e4m3:scale_b=f32.1x128", m));
    compile_tiles(fmt::format("m={}:n=57344:k=8192:a=bf16:b=i4:scale_b=f16.1x128", m));
  }
  compile_tiles("m=16:n=57344:k=8192:a=f16:b=e2m1:scale_b=e8m0.1x32:bias=f32:act=gelu:d=f32");
  compile_tiles("m=64:n=57344:k=8192:a=bf16:b=e2m1:scale_b=f16.1x64");
}

TEST_F(SlowSm90DequantKernels, EveryTileOfPackedIntegersKeepsToItsBudget) {
  for (const int m : {1, 16, 32, 64, 128}) {
    compile_tiles(fmt::format("m={}:n=57344:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128", m));
    compile_tiles(fmt::format("m={}:n=8192:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128", m));
  }
  compile_tiles("m=16:n=57344:k=8192:a=bf16:b=u4:packed=fragments:scale_b=f16.1x128:zero_b=u4");
  compile_tiles("m=64:n=57344:k=8192:a=bf16:b=u4:packed=fragments:scale_b=f16.1x64:zero_b=u4");
  compile_tiles("m=16:n=57344:k=8192:a=f16:b=i4:packed=fragments:scale_b=f16.1x32:gate=separated:act=silu");
  compile_tiles("m=128:n=57344:k=8192:a=bf16:b=i4:packed=fragments");
}

// What varies by column stands beside the sums, or is asked for behind the products.
TEST_F(SlowSm90DequantKernels, EveryTileWithABiasAndAGateKeepsToItsBudget) {
  for (const int m : {16, 32, 64}) {
    const std::string rows = fmt::format("m={}:n=57344:k=8192:a=bf16:", m),
                      gated = ":gate=interleaved:act=gelu:bias=f32";
    compile_tiles(rows + "b=e2m1:scale_b=e8m0.1x32" + gated);
    compile_tiles(rows + "b=i4:packed=fragments:scale_b=f16.1x128" + gated);
  }
}

TEST_F(SlowSm90DequantKernels, EveryTileWithZeroPointsKeepsToItsBudget) {
  for (const int m : {1, 16, 32, 64, 128}) {
    compile_tiles(fmt::format("m={}:n=57344:k=8192:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", m));
  }
  compile_tiles("m=16:n=57344:k=8192:a=f16:b=i4:scale_b=f32.1x32:zero_b=i4");
  compile_tiles("m=64:n=57344:k=8192:a=bf16:b=u4:scale_b=f16.1x64:zero_b=u4");
  compile_tiles("m=16:n=57344:k=8192:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8");
}

TEST_F(SlowSm90DequantKernels, EveryWeightWithoutGroupsKeepsToItsBudget) {
  compile_tiles("m=16:n=57344:k=8192:a=bf16:b=e5m2:gate=interleaved:act=silu");
  compile_tiles("m=64:n=57344:k=8192:a=f16:b=e4m3:scale_b=f32");
  compile_tiles("m=128:n=57344:k=8192:a=bf16:b=e4m3:scale_b=f32");
  compile_tiles("m=128:n=57344:k=8192:a=bf16:b=i4");
}

TEST_F(SlowSm90DequantKernels, EveryTileOfManyRowsKeepsToItsBudget) {
  compile_many("m=512:n=8192:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128");
  compile_many("m=512:n=8192:k=8192:a=f16:b=u4:packed=fragments:scale_b=f16.1x128:zero_b=u4:bias=f16:act=gelu");
  compile_many("m=512:n=8192:k=8192:a=bf16:b=i4:scale_b=f32.1x32:d=f32");
  compile_many("m=512:n=8192:k=8192:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8");
  compile_many("m=512:n=8192:k=8192:a=bf16:b=i8:scale_b=f32");
  compile_many("m=512:n=8192:k=8192:a=bf16:b=e4m3:scale_b=f32.1x128:gate=interleaved:act=silu");
  compile_many("m=512:n=8192:k=8192:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu");
  compile_many("m=512:n=8192:k=8192:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4:gate=separated:act=silu");
  compile_many("m=512:n=5760:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:bias=bf16");
  compile_many("m=512:n=8192:k=8192:a=f16:b=e2m1:scale_b=e8m0.1x32");
}

TEST_F(SlowSm90DequantKernels, EveryTileOfGroupsOfRowsKeepsToItsBudget) {
  compile_groups("groups=128:m=1024:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32");
  compile_groups("groups=128:m=1024:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu:bias=bf16");
  compile_groups("groups=8:m=512:n=28672:k=4096:a=bf16:b=i4:scale_b=f16.1x128");
  compile_groups("mode=masked:groups=8:m=64:n=28672:k=4096:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4");
  compile_groups("groups=128:m=1024:n=5760:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32");
  compile_groups("groups=8:m=512:n=28672:k=4096:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128");
  compile_groups("mode=masked:groups=8:m=64:n=28672:k=4096:a=bf16:b=u4:packed=fragments:scale_b=f16.1x64:zero_b=u4");
}

}  // namespace
}  // namespace tilewright
