// SPDX-License-Identifier: MIT
// Where a pool's threads may run: within the affinity mask of their maker or their process, on one NUMA node each, and not on
// the CPU of who calls them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "arch/cpu_nodes.hpp"
#include "device/cpu/thread_pool.hpp"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::IsSubsetOf;

void bind_caller(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

// The masks of the threads that run units 0 and 1, each of which waits for the other.
std::vector<std::vector<int>> masks_of_two(ThreadPool& pool) {
  std::vector<std::vector<int>> masks(2);
  std::atomic<int> there{0};
  pool.parallel_for(2, [&](uint32_t unit) {
    there.fetch_add(1);
    while (there.load() < 2) std::this_thread::yield();
    masks[unit] = allowed_cpus(0);
  });
  // A thread is bound right after it was made, which may be after its first unit began; and it is moved away from its caller
  // when it is woken.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  there = 0;
  pool.parallel_for(2, [&](uint32_t unit) {
    there.fetch_add(1);
    while (there.load() < 2) std::this_thread::yield();
    masks[unit] = allowed_cpus(0);
  });
  return masks;
}

// The same once the second thread's is as wanted; not ever: the last one. A thread that something kept from sleeping is not
// woken, and stays where it is.
template <class Wanted>
std::vector<int> mask_of_second(ThreadPool& pool, Wanted&& wanted) {
  std::vector<int> mask;
  for (int i = 0; i < 50 && !wanted(mask); ++i) mask = masks_of_two(pool)[1];
  return mask;
}

class ThreadPlacement : public testing::Test {
 protected:
  void SetUp() override {
    all_ = allowed_cpus(0);
    if (all_.size() < 2 || all_.back() >= CPU_SETSIZE) GTEST_SKIP() << "needs two CPUs, here are " << all_.size();
  }
  std::vector<int> all_;
};

TEST_F(ThreadPlacement, AThreadBoundToOneCpuDoesNotPullThePoolOntoIt) {
  ThreadPool pool(2);
  std::vector<int> others = all_;
  others.erase(others.begin() + 1);
  std::thread bound([&] {
    bind_caller({all_[1]});
    EXPECT_THAT(masks_of_two(pool)[0], ElementsAre(all_[1]));
    EXPECT_EQ(mask_of_second(pool, [&](const std::vector<int>& mask) { return mask == others; }), others);
  });
  bound.join();
}

// A thread that is woken on the CPU of its caller begins when the caller has done all of the work.
TEST_F(ThreadPlacement, AThreadThatIsWokenIsNotOnItsCallersCpu) {
  ThreadPool pool(2);
  std::thread caller([&] {
    for (const int cpu : {all_[0], all_[1], all_[0]}) {
      bind_caller(all_);  // the pool may use all of them
      masks_of_two(pool);
      bind_caller({cpu});
      const auto wanted = [&](const std::vector<int>& mask) { return !mask.empty() && !std::ranges::count(mask, cpu); };
      EXPECT_TRUE(wanted(mask_of_second(pool, wanted))) << "CPU " << cpu;
    }
  });
  caller.join();
}

TEST_F(ThreadPlacement, MoreThreadsThanCpusRunOnAllOfThem) {
  const uint32_t threads = static_cast<uint32_t>(all_.size()) + 1;
  ThreadPool pool(threads);
  EXPECT_EQ(masks_of_two(pool)[1], all_);
}

TEST_F(ThreadPlacement, ThreadsStayOnTheCpusOfAMakerThatHasEnough) {
  if (all_.size() < 3) GTEST_SKIP() << "needs three CPUs";
  ThreadPool pool(2);
  const std::vector<int> some = {all_[0], all_[2]};
  std::vector<std::vector<int>> masks;
  std::thread bound([&] {
    bind_caller(some);
    masks = masks_of_two(pool);
  });
  bound.join();
  EXPECT_THAT(masks[1], IsSubsetOf(some));
  EXPECT_FALSE(masks[1].empty());
}

TEST_F(ThreadPlacement, NoThreadLeavesTheMaskOfTheProcess) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(all_[0], &set);
    sched_setaffinity(0, sizeof(set), &set);
    ThreadPool pool(2);
    _exit(masks_of_two(pool)[1] == std::vector<int>{all_[0]} ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ThreadPlacement, EachThreadStaysOnOneNumaNode) {
  const std::string root = testing::TempDir() + "tilewright_placement_nodes";
  std::filesystem::remove_all(root);
  // The first CPU is a node, all others are another.
  const std::vector<int> others(all_.begin() + 1, all_.end());
  for (const auto& [id, cpus] : {std::pair{0, std::vector<int>{all_[0]}}, {1, others}}) {
    const std::string folder = root + "/node" + std::to_string(id);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/cpulist") << cpu_list_text(cpus) << "\n";
  }
  std::ofstream(root + "/online") << "0-1\n";
  const uint32_t threads = static_cast<uint32_t>(all_.size());
  ThreadPool pool(threads, root);
  std::vector<std::vector<int>> masks(threads);
  for (int round = 0; round < 2; ++round) {
    std::atomic<uint32_t> there{0};
    pool.parallel_for(threads, [&](uint32_t unit) {
      there.fetch_add(1);
      while (there.load() < threads) std::this_thread::yield();
      masks[unit] = allowed_cpus(0);
    });
  }
  for (uint32_t i = 1; i < threads; ++i) {
    EXPECT_THAT(masks[i], IsSubsetOf(others)) << "thread " << i;
    EXPECT_FALSE(masks[i].empty()) << "thread " << i;
  }
  EXPECT_EQ(masks[0], all_);  // the caller is left alone
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tilewright
