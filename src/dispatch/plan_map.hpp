// SPDX-License-Identifier: MIT
// A bounded map from problem to plan: what makes a repeated call cheap. Two generations: when the young one is full it
// becomes the old one and the old one goes; a hit in the old one moves up.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "dispatch/plan.hpp"

namespace tilewright {

// Hashes whole words with two independent lanes; keys are a few hundred bytes and compared in full afterwards.
struct PlanKeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view key) const {
    uint64_t a = 0x9E3779B97F4A7C15ull ^ key.size(), b = 0xD1B54A32D192ED03ull;
    size_t i = 0;
    for (; i + 16 <= key.size(); i += 16) {
      uint64_t x, y;
      std::memcpy(&x, key.data() + i, 8);
      std::memcpy(&y, key.data() + i + 8, 8);
      a = (a ^ x) * 0xFF51AFD7ED558CCDull;
      b = (b ^ y) * 0xC4CEB9FE1A85EC53ull;
      a ^= a >> 32;
      b ^= b >> 29;
    }
    for (; i < key.size(); ++i) a = (a ^ static_cast<uint8_t>(key[i])) * 0x100000001B3ull;
    a ^= b;
    return a ^ (a >> 31);
  }
};

class PlanMap {
 public:
  explicit PlanMap(size_t capacity = 4096) : half_(capacity / 2) {}

  std::shared_ptr<const Plan> find(std::string_view key) {
    std::shared_lock lock(mutex_);
    if (const auto it = young_.find(key); it != young_.end()) return it->second;
    if (old_.empty()) return nullptr;
    const auto it = old_.find(key);
    if (it == old_.end()) return nullptr;
    std::shared_ptr<const Plan> plan = it->second;
    lock.unlock();
    insert(key, plan);
    return plan;
  }

  void insert(std::string_view key, std::shared_ptr<const Plan> plan) {
    std::unique_lock lock(mutex_);
    if (young_.size() >= half_) {
      old_ = std::move(young_);
      young_.clear();
    }
    young_[std::string(key)] = std::move(plan);
  }

  // After tables change every choice is open again.
  void clear() {
    std::unique_lock lock(mutex_);
    epoch_.fetch_add(1, std::memory_order_relaxed);
    young_.clear();
    old_.clear();
  }

  // Changes with clear(): what was found before may not be chosen again.
  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }

  size_t size() {
    std::shared_lock lock(mutex_);
    return young_.size() + old_.size();
  }

 private:
  using Map = std::unordered_map<std::string, std::shared_ptr<const Plan>, PlanKeyHash, std::equal_to<>>;
  size_t half_;
  std::shared_mutex mutex_;
  std::atomic<uint64_t> epoch_{0};
  Map young_, old_;
};

}  // namespace tilewright
