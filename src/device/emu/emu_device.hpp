// SPDX-License-Identifier: MIT
// An emulated AMD GPU as a device. Its memory is the host's, and kernels reach nothing else; a launch runs to its end before it
// returns, and its faults are the launch's error.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "device/device.hpp"
#include "device/emu/emulator.hpp"

namespace tilewright::emu {

class EmuDevice final : public Device {
 public:
  // `target`: one of kEmulatedTargets.
  static Result<std::unique_ptr<EmuDevice>> make(int index);
  ~EmuDevice() override;

  const DeviceSpec& spec() const override { return spec_; }
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) override;
  Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                const LaunchContext& context) override;
  Result<void*> allocate(int64_t bytes) override;
  void deallocate(void* data, int64_t bytes) override;
  // What an earlier call left in it counts as never written.
  Result<Workspace> workspace(int64_t bytes, void* stream) override;
  Result<void*> zeros(int64_t bytes, void* stream) override;

  // The host could reach it; but what it writes, the emulation must know of.
  bool host_memory() const override { return false; }
  Status copy_from_host(void* to, const void* from, int64_t bytes) override;
  Status copy_to_host(void* to, const void* from, int64_t bytes) override;
  Status fill(void* to, uint8_t value, int64_t bytes) override;
  void expose(void* data, void* first, int64_t bytes) override;
  Status synchronize() override { return {}; }
  int64_t available_memory() override;
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall& call, int first_turn, int count) override;
  // An emulation's times say nothing of the hardware.
  Result<DeviceLimits> measure_limits(double budget_seconds, const ProbeCompiler& compile) override;

  // Of all launches since the last reset.
  Counters counters() const;
  void reset_counters();

 private:
  // Of allocate(): the bytes that kernels may touch begin at `first`.
  struct Allocation {
    void* first;
    int64_t bytes;
  };

  explicit EmuDevice(DeviceSpec spec) : spec_(std::move(spec)) {}
  Result<void*> allocate(int64_t bytes, const char* what);

  const DeviceSpec spec_;
  mutable std::mutex mutex_;
  GlobalMemory memory_;
  std::unordered_map<void*, Allocation> allocations_;
  Allocation workspace_{nullptr, 0}, zeros_{nullptr, 0};  // the newest; older ones stay
  Counters counters_;
};

}  // namespace tilewright::emu
