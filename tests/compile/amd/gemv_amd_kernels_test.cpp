// SPDX-License-Identifier: MIT
// gemv_amd compiles without a GPU: no spills, no scratch, and a main loop that reads weights in pieces of 16 bytes, where
// the type has such, and never waits for all of them: at least one step's loads stay in flight.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>

#include "compile/amd/amd_kernels.hpp"
#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "gemm/amd/gemv_amd_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {
namespace {

class SlowAmdGemvKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<std::string> objdump = amdgcn_compiler().tool("llvm-objdump");
    if (!objdump) GTEST_SKIP() << objdump.status().message();
  }
  test::ScratchFolder scratch_;
};

bool is_load(const AmdInstruction& i) { return i.mnemonic.starts_with("buffer_load"); }

// Loads that may be in flight after a wait; nothing if the instruction waits for none.
std::optional<int> left_in_flight(const AmdInstruction& i) {
  std::string_view count;
  int base = 10;
  if (i.mnemonic == "s_wait_loadcnt") {
    count = std::string_view(i.operands);
    if (count.starts_with("0x")) count.remove_prefix(2), base = 16;
  } else if (const size_t at = i.operands.find("vmcnt("); i.mnemonic == "s_waitcnt" && at != std::string::npos) {
    count = std::string_view(i.operands).substr(at + 6);
  }
  int found = 0;
  if (count.empty() || std::from_chars(count.data(), count.data() + count.size(), found, base).ec != std::errc()) {
    return std::nullopt;
  }
  return found;
}

// Loads that stay in flight throughout the main loop.
int least_in_flight(const std::vector<AmdInstruction>& code) {
  const std::optional<AmdLoop> loop = find_main_loop(code);
  int least = loop.has_value() ? 1000 : 0;
  for (size_t i = loop ? loop->begin : 0; loop && i < loop->end; ++i) {
    if (const std::optional<int> left = left_in_flight(code[i])) least = std::min(least, *left);
  }
  return least;
}

void check_loads(const std::vector<AmdInstruction>& code, const GemvAmdConfig& config) {
  const std::optional<AmdLoop> loop = find_main_loop(code);
  ASSERT_TRUE(loop.has_value());
  int loads = 0, whole = 0;
  for (size_t i = loop->begin; i < loop->end; ++i) {
    loads += is_load(code[i]);
    whole += is_load(code[i]) && (code[i].mnemonic.ends_with("dwordx4") || code[i].mnemonic.ends_with("b128"));
  }
  // Two steps a turn. A wait for the last load of a step leaves those of the next one.
  EXPECT_GE(least_in_flight(code), loads / 2) << "of " << loads;
  const GemvAmdShape shape = gemv_amd_shape(config);
  if (shape.piece_bytes == 16) {
    EXPECT_EQ(whole, loads);
  } else {
    EXPECT_GT(loads, whole);
  }
}

TEST_P(SlowAmdGemvKernels, EveryPrebuiltOneKeepsLoadsInFlightWithoutSpills) {
  const std::vector<KernelKey> keys = gemv_amd_family().builtin_keys(GetParam());
  ASSERT_GE(keys.size(), 9u);
  const auto found = test::inspect_all_amd(gemv_amd_family(), keys, scratch_);
  for (size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(keys[i].text);
    ASSERT_TRUE(found[i].ok()) << found[i].status().message();
    GemvAmdConfig config;
    ASSERT_TRUE(parse_fields(keys[i].config(), config).ok());
    const AmdInspection& one = found[i]->inspection;
    test::check_budget(one, config.wave, gemv_amd_shape(config).threads);
    check_loads(found[i]->code, config);
    fmt::print("{}: {} registers, {} waves a SIMD, matrix {:.0f} %, limit {}\n", keys[i].text, one.kernel.vgprs,
               one.occupancy.waves(one.occupancy.workgroups), 100 * one.bound.matrix_busy, one.bound.limit);
  }
}

// A of strides that allow no whole chunks: a lane has a register for each element of it, an offset and a test while it asks. On
// CDNA some of what is in flight stays so, as with chunks.
TEST_P(SlowAmdGemvKernels, NoneThatReadsAByElementsSpills) {
  const ArchSpec* arch = find_arch(GetParam());
  const DeviceSpec device = spec_of_part(*arch, arch->parts.front());
  std::vector<const char*> sizes = {"m=32:a=bf16", "m=16:a=i8", "m=32:a=i8"};
  if (arch->wave_size == 64) sizes.push_back("m=16:a=f32");
  std::vector<KernelKey> keys;
  for (const char* weights : {"layout=ccr", "layout=crr", "layout=ccr:packed=1"}) {
    for (const char* size : sizes) {
      const auto text = fmt::format("{}:n=2048:k=2048:{}:bias=f32:act=silu", size, weights);
      const Result<GemmProblem> problem = parse_gemm_problem(text);
      ASSERT_TRUE(problem.ok()) << problem.status().message();
      const std::vector<Candidate> candidates = gemv_amd_family().candidates(erase(*problem), device);
      EXPECT_FALSE(candidates.empty()) << text;
      for (const Candidate& candidate : candidates) {
        const std::string& key = candidate.step.key.text;
        const auto same = [&](const KernelKey& other) { return other.text == key; };
        if (std::none_of(keys.begin(), keys.end(), same)) keys.push_back(candidate.step.key);
      }
    }
  }
  const auto found = test::inspect_all_amd(gemv_amd_family(), keys, scratch_);
  for (size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(keys[i].text);
    ASSERT_TRUE(found[i].ok()) << found[i].status().message();
    GemvAmdConfig config;
    ASSERT_TRUE(parse_fields(keys[i].config(), config).ok());
    EXPECT_EQ(config.a_copy, 0);
    const AmdKernel& kernel = found[i]->inspection.kernel;
    EXPECT_EQ(kernel.vgpr_spills, 0);
    EXPECT_EQ(kernel.scratch_bytes, 0);
    if (arch->wave_size == 32) continue;
    EXPECT_EQ(kernel.sgpr_spills, 0);
    EXPECT_GT(least_in_flight(found[i]->code), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Gfx90a, SlowAmdGemvKernels, testing::Values("gfx90a"));
INSTANTIATE_TEST_SUITE_P(Gfx942, SlowAmdGemvKernels, testing::Values("gfx942"));
INSTANTIATE_TEST_SUITE_P(Gfx950, SlowAmdGemvKernels, testing::Values("gfx950"));
INSTANTIATE_TEST_SUITE_P(Gfx1100, SlowAmdGemvKernels, testing::Values("gfx1100"));
INSTANTIATE_TEST_SUITE_P(Gfx1201, SlowAmdGemvKernels, testing::Values("gfx1201"));

}  // namespace
}  // namespace tilewright
