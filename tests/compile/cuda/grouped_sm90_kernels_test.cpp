// SPDX-License-Identifier: MIT
// grouped_gemm_sm90 compiles without a GPU in every tile, and its kernels keep to their budget: no spills, the registers that
// their threads have, products that ptxas does not serialise.
#include <gmock/gmock.h>

#include <set>

#include "core/fields.hpp"
#include "grouped_gemm/sm90/grouped_sm90_args.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/nvrtc/nvrtc_compiler.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class GroupedSm90Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  void compile(const KernelKey& key) {
    if (!seen_.insert(key.text).second) return;
    SCOPED_TRACE(key.text);
    const Result<CompileRequest> request = grouped_gemm_sm90_family().source(key);
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
    GroupedGemmSm90Config config;
    ASSERT_TRUE(parse_fields(key.config(), config).ok());
    const int threads = grouped_sm90_threads(config);
    EXPECT_EQ(made.shared_bytes, 0) << "static shared memory";
    EXPECT_EQ(made.overtaking_arrivals, 0) << "a stage may go back before it is read";
    EXPECT_LE(made.local_bytes, config.promote == Promotion::kScaled ? kSpillBudget : 0) << "spills";
    EXPECT_EQ(made.max_threads, threads);
    EXPECT_LE(made.registers * threads, kRegistersOfAnSm);
    // What warpgroups take, others have given.
    const GroupedRegisters shares = grouped_sm90_registers(config);
    EXPECT_LE(128 * (shares.producer + config.warpgroups * shares.consumer), made.registers * threads);
  }
  void compile_tiles(const std::string& text) {
    SCOPED_TRACE(text);
    const Result<GroupedGemmProblem> problem = parse_grouped_gemm_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    DeviceSpec device;
    device.arch = find_arch("sm_90a");
    device.units = 132;
    const std::vector<Candidate> found = grouped_gemm_sm90_family().candidates(erase(*problem), device);
    ASSERT_FALSE(found.empty());
    for (const Candidate& candidate : found) compile(candidate.step.key);
  }

 private:
  static constexpr int kRegistersOfAnSm = 65536;
  static constexpr int kSpillBudget = 40;  // of the widest tiles: scales are waited for before their stage goes back
  std::set<std::string> seen_;
  test::ScratchFolder scratch_;
};

class SlowGroupedSm90Kernels : public GroupedSm90Kernels {};

TEST_F(GroupedSm90Kernels, PrebuiltOnesKeepToTheirBudget) {
  const std::vector<KernelKey> keys = grouped_gemm_sm90_family().builtin_keys("sm_90a");
  EXPECT_EQ(keys.size(), 4u);
  for (const KernelKey& key : keys) compile(key);
}

// In clusters, too: they take registers of those that bring rows.
TEST_F(GroupedSm90Kernels, TokensOnTheTallSideKeepToTheirBudget) {
  for (const KernelKey& key : grouped_gemm_sm90_family().builtin_keys("sm_90a")) {
    GroupedGemmSm90Config c;
    ASSERT_TRUE(parse_fields(key.config(), c).ok());
    if (c.promote != Promotion::kScaled || c.tokens < 128) continue;
    c.tall = GroupedTall::kTokens, c.step = kGroupedTallStep, c.stages = 4;
    for (const int cluster : {1, 2}) {
      c.rows = 128, c.tokens = 256, c.cluster = cluster;
      compile(make_key(key.op, key.family, key.target, key.signature(), print_fields(c)));
      c.rows = 256, c.tokens = 128;
      compile(make_key(key.op, key.family, key.target, key.signature(), print_fields(c)));
    }
  }
}

TEST_F(SlowGroupedSm90Kernels, EveryTileWithScalesOfGroupsKeepsToItsBudget) {
  compile_tiles("groups=256:m=65536:n=4096:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128");
  compile_tiles(
      "groups=256:m=65536:n=4096:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:gate=separated:act=silu");
}

// No candidates, since a GPU may not place as many blocks in them. A recipe may name them.
TEST_F(SlowGroupedSm90Kernels, ClustersOfFourKeepToTheirBudget) {
  for (const KernelKey& key : grouped_gemm_sm90_family().builtin_keys("sm_90a")) {
    GroupedGemmSm90Config c;
    ASSERT_TRUE(parse_fields(key.config(), c).ok());
    if (c.tokens < 128) continue;
    c.tokens = 256, c.stages = 4, c.cluster = 4;
    compile(make_key(key.op, key.family, key.target, key.signature(), print_fields(c)));
  }
}

TEST_F(SlowGroupedSm90Kernels, EveryTileOf16BitsKeepsToItsBudget) {
  compile_tiles("groups=8:m=2048:n=28672:k=4096:a=bf16");
  compile_tiles("groups=8:m=2048:n=28672:k=4096:a=bf16:gate=separated:act=silu:bias=bf16");
}

TEST_F(SlowGroupedSm90Kernels, EveryTileWithScalesInTheEpilogueKeepsToItsBudget) {
  compile_tiles("groups=8:m=2048:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32:bias=f32:act=gelu");
}

}  // namespace
}  // namespace tilewright
