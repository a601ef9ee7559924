// SPDX-License-Identifier: MIT
// The plans that a thread used last. A repeated call finds its plan here without a lock, without a hash of the whole
// problem and without touching a reference count that other threads share.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "dispatch/operator.hpp"
#include "dispatch/plan.hpp"

namespace tilewright {

class RecentPlans {
 public:
  static constexpr size_t kEntries = 16, kMaxProblemBytes = kMostProblemBytes;

  // Whose plan: a context by its serial number (addresses come again), its tables by their epoch.
  struct Key {
    uint64_t context, epoch;
    const Operator* op;
    const void* device;  // its part of the context
    int units;
    ProblemRef problem;
  };

 private:
  struct Entry {
    uint64_t context = 0, epoch = 0;  // contexts count from 1
    const Operator* op = nullptr;
    const void* device = nullptr;
    int units = 0;
    uint32_t pins = 0, problem_bytes = 0;
    std::array<std::byte, kMaxProblemBytes> problem{};
    std::shared_ptr<const Plan> plan;
  };

 public:
  // A plan that stays where it is while this lives: a kernel may run the caller's code, which may call again.
  class Pin {
   public:
    Pin() = default;
    explicit Pin(Entry* entry) : entry_(entry) { ++entry_->pins; }
    Pin(Pin&& other) noexcept : entry_(other.entry_) { other.entry_ = nullptr; }
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (entry_ != nullptr) --entry_->pins;
    }
    explicit operator bool() const { return entry_ != nullptr; }
    const Plan& operator*() const { return *entry_->plan; }
    const Plan* operator->() const { return entry_->plan.get(); }

   private:
    Entry* entry_ = nullptr;
  };

  static RecentPlans& of_this_thread() {
    thread_local RecentPlans plans;
    return plans;
  }

  Pin find(const Key& key) {
    Entry& entry = entry_of(key);
    const bool same = entry.context == key.context && entry.epoch == key.epoch && entry.op == key.op &&
                      entry.device == key.device && entry.units == key.units &&
                      entry.problem_bytes == key.problem.size() &&
                      std::memcmp(entry.problem.data(), key.problem.data(), key.problem.size()) == 0;
    return same ? Pin(&entry) : Pin();
  }

  // Nothing when the problem is too large or the place is pinned.
  Pin insert(const Key& key, std::shared_ptr<const Plan> plan) {
    Entry& entry = entry_of(key);
    if (key.problem.size() > kMaxProblemBytes || entry.pins != 0) return {};
    entry.context = key.context, entry.epoch = key.epoch, entry.op = key.op;
    entry.device = key.device, entry.units = key.units;
    entry.problem_bytes = static_cast<uint32_t>(key.problem.size());
    std::memcpy(entry.problem.data(), key.problem.data(), key.problem.size());
    entry.plan = std::move(plan);
    return Pin(&entry);
  }

 private:
  // By the first words of the problem, which are its sizes.
  Entry& entry_of(const Key& key) {
    uint64_t words[4] = {};
    std::memcpy(words, key.problem.data(), std::min(sizeof(words), key.problem.size()));
    const uint64_t mixed = (words[0] + 3 * words[1] + 5 * words[2] + 7 * words[3]) * 0x9E3779B97F4A7C15ull;
    return entries_[mixed >> 60];
  }
  static_assert(kEntries == 16);
  std::array<Entry, kEntries> entries_{};
};

}  // namespace tilewright
