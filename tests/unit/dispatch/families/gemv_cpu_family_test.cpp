// SPDX-License-Identifier: MIT
// gemv_cpu asked about CPUs that need not be here: which streams of B it tries first.
#include <algorithm>

#include "core/fields.hpp"
#include "gemm/gemm_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;

DeviceSpec cpu_of(const char* part) { return test::cpu_device("x86-64-v4-bf16", part); }

// "panels=4:prefetch=0" of the best candidate.
std::string first_streams(const char* part, const std::string& text) {
  const GemmProblem p = problem(text);
  const std::vector<Candidate> found = gemv_cpu_family().candidates(erase(p), cpu_of(part));
  EXPECT_FALSE(found.empty()) << text;
  if (found.empty()) return "";
  const std::string_view config = found.front().step.key.config();
  return std::string(config.substr(config.find("panels=")));
}

TEST(GemvCpuFamily, ACoreWhosePrefetcherKeepsUpIsLeftAlone) {
  EXPECT_EQ(first_streams("zen4", "m=1:n=4096:k=4096:a=bf16:packed=1"), "panels=1:prefetch=0");
  EXPECT_EQ(first_streams("zen4", "m=4:n=4096:k=4096:a=bf16:packed=1"), "panels=4:prefetch=0");
  EXPECT_EQ(first_streams("zen4", "m=4:n=4096:k=4096:a=f32:packed=1"), "panels=4:prefetch=0");
  EXPECT_EQ(first_streams("zen4", "m=1:n=4096:k=4096:a=f32"), "panels=2:prefetch=48");
}

TEST(GemvCpuFamily, OnAPartThatNobodyMeasuredTheKernelFetchesItself) {
  EXPECT_EQ(first_streams("intel-6-1", "m=1:n=4096:k=4096:a=bf16:packed=1"), "panels=1:prefetch=48");
  EXPECT_EQ(first_streams("intel-6-1", "m=4:n=4096:k=4096:a=bf16:packed=1"), "panels=2:prefetch=48");
}

TEST(GemvCpuFamily, BothWaysToReadAreCandidatesOnceEach) {
  for (const char* part : {"zen4", "intel-6-1"}) {
    const GemmProblem p = problem("m=4:n=4096:k=4096:a=bf16:packed=1");
    std::vector<std::string> configs;
    for (const Candidate& c : gemv_cpu_family().candidates(erase(p), cpu_of(part))) {
      configs.push_back(c.step.key.target + ' ' + std::string(c.step.key.config()));
    }
    for (const std::string& config : configs) EXPECT_EQ(std::ranges::count(configs, config), 1) << config;
    for (const char* streams : {"rows=4:panels=4:prefetch=0", "rows=4:panels=2:prefetch=48"}) {
      EXPECT_TRUE(std::ranges::any_of(configs, [&](const std::string& c) { return c.ends_with(streams); })) << streams;
    }
  }
}

}  // namespace
}  // namespace tilewright
