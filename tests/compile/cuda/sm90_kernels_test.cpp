// SPDX-License-Identifier: MIT
// gemm_sm90 compiles without a GPU, and what its kernels take keeps to its budget: no spills, the registers that a block of
// this size has, the shared memory that the host asks for.
#include <gmock/gmock.h>

#include <set>
#include <tuple>

#include "compile/key_samples.hpp"
#include "core/fields.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/nvrtc/nvrtc_compiler.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

constexpr int kRegistersOfAnSm = 65536;

class Sm90Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  void compile(const std::vector<KernelKey>& keys) {
    for (const KernelKey& key : keys) compile(key);
  }
  void compile(const KernelKey& key) {
    SCOPED_TRACE(key.text);
    const bool skinny = key.family == gemm_sm90_skinny_family().name();
    const KernelFamily& family = skinny ? gemm_sm90_skinny_family() : gemm_sm90_family();
    const Result<CompileRequest> request = family.source(key);
    ASSERT_TRUE(request.ok()) << request.status().message();
    const std::string folder = scratch_ / std::to_string(compiled_++);
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
    EXPECT_EQ(made.shared_bytes, 0) << "static shared memory";
    EXPECT_EQ(made.overtaking_arrivals, 0) << "a stage may go back before it is read";
    if (skinny) return check_skinny(key, made);
    GemmSm90Config config;
    ASSERT_TRUE(parse_fields(key.config(), config).ok());
    EXPECT_LE(made.local_bytes, kSpillBudget);
    // Up to 64 bytes before the arguments: tensor maps want multiples of 64.
    EXPECT_GE(made.arg_bytes, static_cast<int64_t>(sizeof(GemmSm90Args)));
    EXPECT_LT(made.arg_bytes, static_cast<int64_t>(sizeof(GemmSm90Args) + alignof(GemmSm90Args)));
    EXPECT_EQ(made.max_threads, gemm_sm90_threads(config));
    EXPECT_LE(made.registers * gemm_sm90_threads(config), kRegistersOfAnSm);
    EXPECT_LE(gemm_sm90_shared_bytes(config), find_arch(key.target)->shared_bytes);
  }

 private:
  static void check_skinny(const KernelKey& key, const CubinKernel& made) {
    GemmSm90SkinnyConfig config;
    ASSERT_TRUE(parse_fields(key.config(), config).ok());
    EXPECT_EQ(made.local_bytes, 0) << "spills";
    EXPECT_GE(made.arg_bytes, static_cast<int64_t>(sizeof(GemmSm90SkinnyArgs)));
    EXPECT_LT(made.arg_bytes, static_cast<int64_t>(sizeof(GemmSm90SkinnyArgs) + alignof(GemmSm90SkinnyArgs)));
    EXPECT_EQ(made.max_threads, gemm_sm90_skinny_threads(config));
    EXPECT_LE(made.registers * gemm_sm90_skinny_threads(config) * config.blocks, kRegistersOfAnSm);
  }

  static constexpr int kSpillBudget = 48;  // a few addresses of the exchange, outside of the loop over K
  int compiled_ = 0;
  test::ScratchFolder scratch_;
};

class SlowSm90Kernels : public Sm90Kernels {};

DeviceSpec device_of_sm_90a() {
  DeviceSpec device;
  device.arch = find_arch("sm_90a");
  device.units = 132;
  return device;
}

// Of few rows every tile, gate and epilogue, and where sums fill the registers every way to share them.
std::vector<KernelKey> keys_of_few_rows() {
  const DeviceSpec device = device_of_sm_90a();
  std::vector<KernelKey> keys;
  std::set<std::string> seen;
  const auto add = [&](const KernelKey& key) {
    if (seen.insert(key.text).second) keys.push_back(key);
  };
  std::set<std::tuple<int, int, int, int, int, int, GateMode, bool>> tiles;
  std::set<std::tuple<int, int, GateMode, Promotion>> meetings;
  for (const char* text :
       {"m=1:n=4096:k=4096:a=bf16", "m=16:n=4096:k=4096:a=bf16", "m=64:n=4096:k=4096:a=bf16",
        "m=128:n=4096:k=4096:a=bf16", "m=32:n=4096:k=4096:a=f16:d=f32:bias=f32:act=gelu",
        "m=128:n=4096:k=4096:a=i8:scale_a=f32:scale_b=f32", "m=16:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32",
        "m=128:n=4096:k=4096:a=e5m2:scale_a=f32:scale_b=f32",
        "m=128:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32:allow_fast_accum=1",
        "m=16:n=4096:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
        "m=64:n=4096:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
        "m=128:n=4096:k=7168:a=e5m2:scale_a=f32.1x128:scale_b=f32.128x128",
        "m=64:n=8192:k=4096:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:gate=separated:act=silu",
        "m=64:n=8192:k=4096:a=bf16:gate=separated:act=silu", "m=128:n=8192:k=4096:a=bf16:gate=separated:act=silu",
        "m=128:n=8192:k=4096:a=bf16:gate=interleaved:act=silu:bias=bf16"}) {
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    EXPECT_TRUE(problem.ok()) << problem.status().message();
    const std::vector<Candidate> found = gemm_sm90_skinny_family().candidates(erase(*problem), device);
    EXPECT_FALSE(found.empty()) << text;
    std::set<int> splits;
    for (const Candidate& candidate : found) {
      GemmSm90SkinnyConfig c;
      EXPECT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
      const bool apart = c.promote != Promotion::kNone && c.tokens == 128;
      const auto tile = std::tuple(c.rows, c.tokens, c.warpgroups, c.depth, c.cluster, c.blocks, c.gate, apart);
      const bool new_tile = c.splits == 1 && tiles.insert(tile).second;
      const bool new_splits = c.tokens == 128 && c.dtype != DType::kI8 && splits.insert(c.splits).second;
      const bool new_meeting =
          gemm_sm90_skinny_parts_meet(c) && meetings.insert({c.tokens, c.splits, c.gate, c.promote}).second;
      if (new_tile || new_splits || new_meeting) add(candidate.step.key);
    }
  }
  EXPECT_GT(keys.size(), 30u);
  EXPECT_GT(meetings.size(), 10u);
  for (const KernelKey& key : gemm_sm90_skinny_family().builtin_keys("sm_90a")) add(key);
  return keys;
}

// The best candidate of problems that take each way through the kernel.
std::vector<KernelKey> keys_of_each_layout_gate_and_epilogue() {
  const DeviceSpec device = device_of_sm_90a();
  std::vector<KernelKey> keys;
  for (const char* text :
       {"m=4096:n=4096:k=4096:a=bf16:layout=rrr", "m=4096:n=4096:k=4096:a=bf16:layout=crr:bias=bf16:act=gelu",
        "m=4096:n=4096:k=4096:a=f16:layout=ccr:c=f16", "m=4096:n=4096:k=4096:a=i8:scale_a=f32:scale_b=f32",
        "m=4096:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32", "m=1024:n=4096:k=4096:a=e5m2:d=f32:alpha=1",
        "m=4096:n=4096:k=4096:a=f32:allow_tf32=1", "m=4096:n=4096:k=4096:a=f32:allow_tf32=1:c=f32:steps=act.gelu",
        "m=4096:n=8192:k=4096:a=e4m3:scale_a=f32:scale_b=f32:gate=separated:act=silu",
        "m=4096:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32:allow_fast_accum=1",
        "m=1024:n=4096:k=7168:a=e5m2:d=f32:alpha=1:allow_fast_accum=1",
        "m=4096:n=4096:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:d=f32:bias=f32",
        "m=4096:n=4096:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
        "m=4096:n=8192:k=4096:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:gate=separated:act=silu",
        "m=4096:n=8192:k=4096:a=e4m3:scale_a=f32:scale_b=f32:gate=separated:act=silu:allow_fast_accum=1",
        "m=4096:n=8192:k=4096:a=bf16:gate=separated:act=silu", "m=4096:n=8192:k=4096:a=bf16:gate=interleaved:act=silu",
        "m=64:n=4096:k=4096:a=bf16", "m=4096:n=4100:k=4096:a=bf16"}) {
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    EXPECT_TRUE(problem.ok()) << problem.status().message();
    const std::vector<Candidate> found = gemm_sm90_family().candidates(erase(*problem), device);
    EXPECT_FALSE(found.empty()) << text;
    if (!found.empty()) keys.push_back(found.front().step.key);
  }
  return keys;
}

// In tiles that are no multiple of 64 columns the last box of D is narrower.
std::vector<KernelKey> keys_of_tiles_with_a_narrow_box() {
  const DeviceSpec device = device_of_sm_90a();
  const std::pair<const char*, size_t> problems[] = {
      {"m=1024:n=7168:k=2048:a=bf16", 3},
      {"m=1024:n=7168:k=2048:a=i8:scale_a=f32:scale_b=f32", 3},
      {"m=1024:n=7168:k=2048:a=e4m3:scale_a=f32:scale_b=f32:bias=bf16", 3},
      {"m=1024:n=7168:k=2048:a=e4m3:scale_a=f32:scale_b=f32:bias=bf16:act=gelu", 2},  // those that do not spill
      {"m=1024:n=7168:k=2048:a=e4m3:scale_a=f32:scale_b=f32:allow_fast_accum=1", 3},
      {"m=1024:n=2112:k=7168:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128", 2}};
  std::vector<KernelKey> keys;
  for (const auto& [text, least] : problems) {
    std::set<int> widths;
    for (const Candidate& candidate : gemm_sm90_family().candidates(erase(*parse_gemm_problem(text)), device)) {
      GemmSm90Config c;
      EXPECT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
      if (c.tile_n % 64 != 0 && widths.insert(c.tile_n).second) keys.push_back(candidate.step.key);
    }
    EXPECT_GE(widths.size(), least) << text;
  }
  return keys;
}

std::vector<KernelKey> prebuilt_keys() {
  std::vector<KernelKey> keys = gemm_sm90_family().builtin_keys("sm_90a");
  EXPECT_EQ(keys.size(), 24u);
  return keys;
}

// The kernels of the slow lane that hold a type, a layout, a gate, an epilogue or a number of rows for the first time.
TEST_F(Sm90Kernels, OneOfEachKindKeepsToItsBudget) {
  std::vector<KernelKey> keys = prebuilt_keys();
  for (const KernelKey& key : keys_of_each_layout_gate_and_epilogue()) keys.push_back(key);
  for (const KernelKey& key : keys_of_tiles_with_a_narrow_box()) keys.push_back(key);
  for (const KernelKey& key : keys_of_few_rows()) keys.push_back(key);
  compile(test::one_of_each_value(keys, {"dtype", "a_major", "b_major", "epilogue", "gate", "promote", "tokens"}));
}

TEST_F(SlowSm90Kernels, EveryPrebuiltOneKeepsToItsBudget) { compile(prebuilt_keys()); }
TEST_F(SlowSm90Kernels, EachLayoutGateAndEpilogueKeepsToItsBudget) { compile(keys_of_each_layout_gate_and_epilogue()); }
TEST_F(SlowSm90Kernels, TilesWithANarrowBoxKeepToTheirBudget) { compile(keys_of_tiles_with_a_narrow_box()); }
TEST_F(SlowSm90Kernels, FewRowsKeepToTheirBudgetInEveryTileGateAndEpilogue) { compile(keys_of_few_rows()); }

}  // namespace
}  // namespace tilewright
