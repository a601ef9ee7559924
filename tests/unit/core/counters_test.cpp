// SPDX-License-Identifier: MIT
#include "core/counters.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tilewright {
namespace {

TEST(CounterSnapshot, EveryCounterReachesItsOwnValue) {
  Counters counters;
  uint64_t expected = 1;
  for_each_field(counters, [&](const char*, std::atomic<uint64_t>& counter) { counter = expected++; });
  const CounterValues values = snapshot(counters);
  expected = 1;
  for_each_field(values, [&](const char* name, uint64_t value) { EXPECT_EQ(value, expected++) << name; });
  EXPECT_EQ(sizeof(CounterValues), (expected - 1) * sizeof(uint64_t)) << "a counter is missing from the field list";
}

TEST(CounterSnapshot, CountsOfSeveralThreadsAddUp) {
  Counters counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) count(counters.calls);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(snapshot(counters).calls, 40000u);
}

}  // namespace
}  // namespace tilewright
