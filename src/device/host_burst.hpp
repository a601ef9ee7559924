// SPDX-License-Identifier: MIT
// A burst on a device whose launches return when they are done.
#pragma once

#include <chrono>

#include "device/device.hpp"

namespace tilewright {

// Each run goes on with the turns where the last one ended.
class HostBurst final : public Burst {
 public:
  HostBurst(TurnedCall call, int first_turn, int count) : call_(std::move(call)), turn_(first_turn), count_(count) {}

  Result<double> run() override {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count_; ++i) {
      if (Status s = call_(turn_++, {}); !s) return s;
    }
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / count_;
  }

 private:
  const TurnedCall call_;
  int turn_;
  const int count_;
};

}  // namespace tilewright
