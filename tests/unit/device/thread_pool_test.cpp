// SPDX-License-Identifier: MIT
// The CPU device's thread pool: each unit runs exactly once, whoever calls, from wherever, also after fork.
#include "device/cpu/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace tilewright {
namespace {

// Runs `count` units and checks that each index came once.
void expect_each_once(ThreadPool& pool, uint32_t count) {
  std::vector<std::atomic<int>> seen(count);
  pool.parallel_for(count, [&](uint32_t unit) { seen[unit].fetch_add(1, std::memory_order_relaxed); });
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(seen[i].load(), 1) << "unit " << i << " of " << count;
}

TEST(ThreadPool, EveryUnitRunsExactlyOnce) {
  for (uint32_t threads : {1u, 2u, 3u, 7u, 16u, 64u}) {
    ThreadPool pool(threads);
    for (uint32_t count = 0; count <= 64; ++count) expect_each_once(pool, count);
    expect_each_once(pool, 10007);
  }
}

TEST(ThreadPool, ManyShortJobsLoseNoWakeUp) {
  ThreadPool pool(4);
  uint64_t total = 0;
  std::vector<uint64_t> partial(4);
  for (int job = 0; job < 20000; ++job) {
    // Plain memory: results of all units must be visible to the caller.
    pool.parallel_for(4, [&](uint32_t unit) { partial[unit] = job + unit; });
    for (uint64_t value : partial) total += value;
  }
  EXPECT_EQ(total, 4ull * 20000 * 19999 / 2 + 6ull * 20000);
}

TEST(ThreadPool, SleepingThreadsWakeUpForTheNextJob) {
  ThreadPool pool(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    expect_each_once(pool, 3);
  }
}

TEST(ThreadPool, WorkIsSpreadOverThreads) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  // Units are long enough for every thread to come.
  for (int attempt = 0; attempt < 50 && threads.size() < 3; ++attempt) {
    pool.parallel_for(3, [&](uint32_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(threads.size(), 3u);
}

// The first unit, the caller's, ends when all others have run: its thread's neighbours of it can only be somebody else's.
TEST(ThreadPool, AThreadThatIsSlowLeavesItsUnitsToOthers) {
  ThreadPool pool(2);
  constexpr uint32_t kCount = 32;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.parallel_for(2, [&](uint32_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  if (threads.size() < 2) GTEST_SKIP() << "the system gave no second thread";
  std::atomic<uint32_t> done{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(kCount, [&](uint32_t unit) {
    while (unit == 0 && done.load() != kCount - 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    done.fetch_add(1);
    EXPECT_TRUE(unit != 0 || done.load() == kCount) << "units waited for a thread that was busy";
  });
}

TEST(ThreadPool, NoMoreThreadsThanAllowedRunUnits) {
  ThreadPool pool(4);
  for (const uint32_t most : {1u, 2u, 3u}) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::vector<int> seen(40);
    pool.parallel_for(
        40,
        [&](uint32_t unit) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          const std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
          ++seen[unit];
        },
        most);
    EXPECT_LE(threads.size(), most);
    for (const int times : seen) EXPECT_EQ(times, 1);
  }
}

TEST(ThreadPool, NestedRunsCompleteInsteadOfDeadlocking) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> seen(8 * 8);
  pool.parallel_for(
      8, [&](uint32_t outer) { pool.parallel_for(8, [&](uint32_t inner) { seen[outer * 8 + inner].fetch_add(1); }); });
  for (auto& count : seen) EXPECT_EQ(count.load(), 1);
}

TEST(ThreadPool, ConcurrentCallersEachGetTheirOwnResult) {
  ThreadPool pool(4);
  std::vector<std::thread> callers;
  std::vector<int> wrong(6);
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      std::vector<int> out(32);
      for (int job = 0; job < 500; ++job) {
        pool.parallel_for(32, [&](uint32_t unit) { out[unit] = caller * 1000 + job + static_cast<int>(unit); });
        for (int unit = 0; unit < 32; ++unit) wrong[caller] += out[unit] != caller * 1000 + job + unit;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int count : wrong) EXPECT_EQ(count, 0);
}

TEST(ThreadPool, ThreadCountIsClamped) {
  EXPECT_EQ(ThreadPool(0).threads(), 1u);
  EXPECT_EQ(ThreadPool(1u << 20).threads(), ThreadPool::kMaxThreads);
}

// Runs `body` in a forked child; true when it returned true there within ten seconds.
template <class Body>
bool true_in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool each_once(ThreadPool& pool, uint32_t count) {
  std::vector<std::atomic<int>> seen(count);
  pool.parallel_for(count, [&](uint32_t unit) { seen[unit].fetch_add(1); });
  for (auto& value : seen) {
    if (value.load() != 1) return false;
  }
  return true;
}

using test::kNoForkReason;
using test::kThreadSanitizer;

TEST(ThreadPool, ForkedChildRunsOnThreadsOfItsOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << kNoForkReason;
  ThreadPool pool(4);
  expect_each_once(pool, 16);  // the parent's threads are there
  EXPECT_TRUE(true_in_child([&] {
    if (!each_once(pool, 16)) return false;
    std::set<std::thread::id> threads;
    std::mutex mutex;
    for (int attempt = 0; attempt < 50 && threads.size() < 4; ++attempt) {
      pool.parallel_for(4, [&](uint32_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
    }
    return threads.size() == 4;
  }));
  expect_each_once(pool, 16);  // and the parent does not notice
}

TEST(ThreadPool, ForkWhileThePoolIsBusyLeavesTheChildWorking) {
  if (kThreadSanitizer) GTEST_SKIP() << kNoForkReason;
  ThreadPool pool(3);
  std::atomic<bool> begun{false}, stop{false};
  std::thread caller([&] {
    pool.parallel_for(3, [&](uint32_t) {
      begun = true;
      while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  });
  while (!begun) std::this_thread::yield();
  EXPECT_TRUE(true_in_child([&] { return each_once(pool, 9) && each_once(pool, 3); }));
  stop = true;
  caller.join();
}

TEST(ThreadPool, DestructionInAForkedChildDoesNotHang) {
  if (kThreadSanitizer) GTEST_SKIP() << kNoForkReason;
  auto pool = std::make_unique<ThreadPool>(3);
  expect_each_once(*pool, 9);
  EXPECT_TRUE(true_in_child([&] {
    pool.reset();
    return true;
  }));
}

}  // namespace
}  // namespace tilewright
