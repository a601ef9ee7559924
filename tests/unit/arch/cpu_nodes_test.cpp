// SPDX-License-Identifier: MIT
// NUMA nodes: read from a made-up /sys, cut to the CPUs that are allowed, and shared out among threads.
#include "arch/cpu_nodes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CpuList, ListsAreReadAndWrittenAsLinuxWritesThem) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
  EXPECT_THAT(parse_cpu_list("3,1-2,2"), ElementsAre(1, 2, 3));
  for (const char* text : {"0-3,8,10-11", "5", "0,2,4", ""}) EXPECT_EQ(cpu_list_text(parse_cpu_list(text)), text);
}

TEST(CpuList, NonsenseIsPassedOver) {
  EXPECT_THAT(parse_cpu_list("a,2,-1,3-x,4"), ElementsAre(2, 4));
  EXPECT_THAT(parse_cpu_list(",,"), IsEmpty());
  EXPECT_THAT(parse_cpu_list("7-3"), IsEmpty());
  EXPECT_LE(parse_cpu_list("0-2147483647").size(), size_t{1} << 21);
}

class CpuNodes : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "tilewright_nodes_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put_node(int id, const std::string& cpus, const std::string& memory) {
    const std::string folder = root_ + "/node" + std::to_string(id);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/cpulist") << cpus << "\n";
    std::ofstream(folder + "/meminfo") << memory;
  }
  void put_online(const std::string& list) { std::ofstream(root_ + "/online") << list << "\n"; }
  std::string root_;
};

TEST_F(CpuNodes, ANodeHasItsAllowedCpusAndItsMemory) {
  put_online("0-2");
  put_node(0, "0-3", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n");
  put_node(1, "4-7", "nothing");
  put_node(2, "", "Node 2 MemTotal: 4096 kB\n");  // memory without CPUs
  const std::vector<int> allowed = {2, 3, 4};
  const std::vector<CpuNode> nodes = cpu_nodes(allowed, root_);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].id, 0);
  EXPECT_THAT(nodes[0].cpus, ElementsAre(2, 3));
  EXPECT_EQ(nodes[0].memory_bytes, 1024 * 1024);
  EXPECT_EQ(nodes[1].id, 1);
  EXPECT_THAT(nodes[1].cpus, ElementsAre(4));
  EXPECT_EQ(nodes[1].memory_bytes, 0);
}

TEST_F(CpuNodes, WithoutFilesOrWithThoseOfAnotherMachineAllCpusAreOneNode) {
  const std::vector<int> allowed = {0, 5};
  for (const bool other_machine : {false, true}) {
    if (other_machine) {
      put_online("0-1");
      put_node(0, "0", "");
      put_node(1, "1", "");
    }
    const std::vector<CpuNode> nodes = cpu_nodes(allowed, root_);
    ASSERT_EQ(nodes.size(), 1u);
    EXPECT_THAT(nodes[0].cpus, ElementsAre(0, 5));
  }
}

TEST(CpuOfThread, ThreadsFillNodesInOrderByTheirShareOfTheCpus) {
  const std::vector<CpuNode> nodes = {{0, {0, 1, 2, 3}, 0}, {1, {4, 5}, 0}};
  std::vector<int> first;
  for (uint32_t i = 0; i < 6; ++i) first.push_back(cpus_of_thread(nodes, i, 6).front());
  EXPECT_THAT(first, ElementsAre(0, 0, 0, 0, 4, 4));
  first.clear();
  for (uint32_t i = 0; i < 3; ++i) first.push_back(cpus_of_thread(nodes, i, 3).front());
  EXPECT_THAT(first, ElementsAre(0, 0, 4));
  first.clear();
  for (uint32_t i = 0; i < 12; ++i) first.push_back(cpus_of_thread(nodes, i, 12).front());
  EXPECT_THAT(first, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4));
  EXPECT_THAT(cpus_of_thread(nodes, 5, 6), ElementsAre(4, 5));
}

TEST(CpuNodesHere, EveryAllowedCpuStandsInOneNode) {
  const std::vector<int> allowed = allowed_cpus(0);
  ASSERT_FALSE(allowed.empty());
  size_t found = 0;
  for (const CpuNode& node : cpu_nodes(allowed)) found += node.cpus.size();
  EXPECT_EQ(found, allowed.size());
}

}  // namespace
}  // namespace tilewright
