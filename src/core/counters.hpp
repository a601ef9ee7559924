// SPDX-License-Identifier: MIT
// What happened, as numbers: plan misses, compiles, fallbacks. Relaxed atomics; reading them costs nobody anything.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tile/common/fields.hpp"

namespace tilewright {

template <class T>
struct CountersOf {
  T calls{};          // operator calls
  T plan_hits{};      // calls served by the plan map
  T plan_misses{};    // calls that chose a recipe
  T chosen_forced{};  // how misses were decided
  T chosen_tuned{};
  T chosen_bucket{};
  T chosen_cost{};
  T chosen_generic{};
  T compiles{};  // instances compiled
  T compile_failures{};
  T cache_memory_hits{};
  T cache_pack_hits{};
  T cache_disk_hits{};
  T cache_corrupt{};  // damaged entries treated as misses
  T fallbacks{};      // the best recipe was not available and another one served

  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("calls", self.calls);
    visit("plan_hits", self.plan_hits);
    visit("plan_misses", self.plan_misses);
    visit("chosen_forced", self.chosen_forced);
    visit("chosen_tuned", self.chosen_tuned);
    visit("chosen_bucket", self.chosen_bucket);
    visit("chosen_cost", self.chosen_cost);
    visit("chosen_generic", self.chosen_generic);
    visit("compiles", self.compiles);
    visit("compile_failures", self.compile_failures);
    visit("cache_memory_hits", self.cache_memory_hits);
    visit("cache_pack_hits", self.cache_pack_hits);
    visit("cache_disk_hits", self.cache_disk_hits);
    visit("cache_corrupt", self.cache_corrupt);
    visit("fallbacks", self.fallbacks);
  }
};

using Counters = CountersOf<std::atomic<uint64_t>>;
using CounterValues = CountersOf<uint64_t>;

inline void count(std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

inline CounterValues snapshot(const Counters& counters) {
  std::array<uint64_t, sizeof(CounterValues) / sizeof(uint64_t)> read{};
  auto next = read.begin();
  for_each_field(counters, [&](const char*, const auto& from) { *next++ = from.load(std::memory_order_relaxed); });
  CounterValues values;
  next = read.begin();
  for_each_field(values, [&](const char*, uint64_t& to) { to = *next++; });
  return values;
}

}  // namespace tilewright
