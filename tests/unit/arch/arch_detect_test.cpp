// SPDX-License-Identifier: MIT
// Detection of the running CPU, step by step on made-up machines, and once for real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "arch/arch_spec.hpp"
#include "arch/cpu_cores.hpp"
#include "arch/cpu_detect.hpp"
#include "arch/cpuid.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

std::function<bool(std::string_view)> with(const char* target, const std::set<std::string_view>& except = {}) {
  std::set<std::string_view> features;
  for (const std::string_view feature : find_arch(target)->features) {
    if (except.count(feature) == 0) features.insert(feature);
  }
  return [features](std::string_view feature) { return features.count(feature) != 0; };
}

TEST(CpuTarget, IsTheBestWhoseFeaturesAreAllThere) {
  EXPECT_EQ(best_cpu_target(with("x86-64-v4-amx")), "x86-64-v4-amx");
  EXPECT_EQ(best_cpu_target(with("x86-64-v4-amx", {"amx_int8"})), "x86-64-v4-bf16");
  EXPECT_EQ(best_cpu_target(with("x86-64-v4-amx", {"avx512_bf16"})), "x86-64-v4");
  EXPECT_EQ(best_cpu_target(with("x86-64-v4-amx", {"avx512vl"})), "x86-64-v3");
  EXPECT_EQ(best_cpu_target(with("x86-64-v3")), "x86-64-v3");
  EXPECT_EQ(best_cpu_target(with("x86-64-v3", {"fma"})), "x86-64");
}

TEST(CpuTarget, TheVariableLowersButNeverRaises) {
  std::string problem;
  EXPECT_EQ(lowered_cpu_target("x86-64-v4-amx", std::nullopt, problem), "x86-64-v4-amx");
  EXPECT_EQ(lowered_cpu_target("x86-64-v4-amx", "x86-64-v3", problem), "x86-64-v3");
  EXPECT_EQ(problem, "");
  EXPECT_EQ(lowered_cpu_target("x86-64-v3", "x86-64-v4", problem), "x86-64-v3");
  EXPECT_THAT(problem,
              HasSubstr("TILEWRIGHT_CPU_TARGET='x86-64-v4' is not a target that this CPU runs; allowed: x86-64-v3"));
  EXPECT_EQ(lowered_cpu_target("x86-64-v4", "sm_90a", problem), "x86-64-v4");
  EXPECT_THAT(problem, HasSubstr("allowed: x86-64-v4, x86-64-v3"));
  EXPECT_EQ(lowered_cpu_target("", "x86-64-v3", problem), "");
  EXPECT_THAT(problem, HasSubstr("allowed: none"));
}

TEST(CpuPart, IdsJoinFamilyAndModelAsTheManualsSay) {
  EXPECT_EQ(cpu_part_id("GenuineIntel", 0x000806F8), "intel-6-143");
  EXPECT_EQ(cpu_part_id("GenuineIntel", 0x000C06F2), "intel-6-207");
  EXPECT_EQ(cpu_part_id("GenuineIntel", 0x00050657), "intel-6-85");
  EXPECT_EQ(cpu_part_id("AuthenticAMD", 0x00A10F11), "amd-25-17");
  EXPECT_EQ(cpu_part_id("AuthenticAMD", 0x00B00F21), "amd-26-2");
  EXPECT_EQ(cpu_part_id("SomethingNew", 0x00000513), "cpu-5-1");
}

class CgroupQuota : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "tilewright_cgroup_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(CgroupQuota, Version2TakesTheSmallestOnTheWayUp) {
  put("/cpu.max", "max 100000\n");
  put("/a/cpu.max", "250000 100000\n");
  put("/a/b/cpu.max", "800000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/a/b\n", root_), 2.5);
  EXPECT_EQ(cgroup_quota("0::/a/b/deeper/without/files\n", root_), 2.5);
  EXPECT_EQ(cgroup_quota("0::/\n", root_), 0);
}

TEST_F(CgroupQuota, Version1ReadsTheHierarchyThatHasTheCpuController) {
  put("/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  put("/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
  put("/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota("5:cpuset:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/job\n", root_), 3.0);
  EXPECT_EQ(cgroup_quota("5:cpuset:/job\n", root_), 0);
}

TEST_F(CgroupQuota, WithoutFilesOrWithNonsenseThereIsNone) {
  put("/x/cpu.max", "what is this");
  EXPECT_EQ(cgroup_quota("0::/x\n", root_), 0);
  EXPECT_EQ(cgroup_quota("", root_), 0);
  EXPECT_EQ(cgroup_quota("no colons\n0:only one\n", root_), 0);
}

TEST(CpuHere, DetectionDescribesARealMachine) {
  const CpuInfo& info = cpu_info();
  EXPECT_FALSE(info.part.empty());
  EXPECT_GE(info.cores, 1);
  EXPECT_EQ(info.cores, usable_cores());
  if (info.target.empty()) GTEST_SKIP() << "this CPU is not an x86-64";
  EXPECT_NE(find_arch(info.target), nullptr);
  EXPECT_GT(info.l1d_bytes, 8 << 10);
  EXPECT_GT(info.l2_bytes, info.l1d_bytes);
#if defined(__x86_64__)
  // The compiler's run-time library asks cpuid too.
  EXPECT_EQ(cpu_has("avx2"), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(cpu_has("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(cpu_has("avx512_vnni"), __builtin_cpu_supports("avx512vnni") != 0);
#endif
  EXPECT_FALSE(cpu_has("no_such_feature"));
  EXPECT_TRUE(info.target != "x86-64-v4-amx" || request_amx());
}

// Linux prints the flags it found; every feature of the chosen target must be among them.
TEST(CpuHere, LinuxSeesTheFeaturesOfTheChosenTarget) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word == "abm" ? "lzcnt" : word);
    break;
  }
  if (flags.empty() || cpu_info().target.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  for (const std::string_view feature : find_arch(cpu_info().target)->features) {
    EXPECT_TRUE(flags.count(std::string(feature)) != 0) << feature;
  }
}

}  // namespace
}  // namespace tilewright
