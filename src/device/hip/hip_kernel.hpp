// SPDX-License-Identifier: MIT
// A kernel that a HIP device has loaded, and its launch.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/gpu/runtime.hpp"
#include "device/hip/driver/driver.hpp"

namespace tilewright::hip {

// One device as gpu::Runtime: the one that is current for the thread.
class HipRuntime final : public gpu::Runtime {
 public:
  HipRuntime(const Driver& driver, int index)
      : Runtime(driver, {DeviceKind::kHip, index}), driver_(driver), index_(index) {}
  const Driver& driver() const { return driver_; }
  int index() const { return index_; }

  Status check(gpu::Code code, std::string_view what) const override { return hip::check(driver_, code, what); }
  // `undo`: one more than the device that was current.
  Entered enter() const override {
    int before = 0;
    const gpu::Code code = driver_.hipGetDevice(&before);
    if (code != gpu::kSuccess || before == index_) return {code, 0};
    const gpu::Code set = driver_.hipSetDevice(index_);
    return {set, set == gpu::kSuccess ? before + 1 : 0};
  }
  void leave(int undo) const override { driver_.hipSetDevice(undo - 1); }

 private:
  const Driver& driver_;
  const int index_;
};

// What a launch must keep to, and what code must be made for.
struct HipLimits {
  std::string processor;  // "gfx942:sramecc+:xnack-"
  int lds_bytes = 0;      // most that a workgroup can be given
};

class HipKernel final : public LoadedKernel {
 public:
  // Looks at the code object before HIP sees it, and loads it at once. `runtime` must outlive the kernel.
  static Result<std::shared_ptr<const LoadedKernel>> load(const HipRuntime& runtime, const HipLimits& limits,
                                                          const Artifact& artifact);
  ~HipKernel() override;

  Status launch(std::span<const std::byte> args, const LaunchShape& shape, const LaunchContext& context) const;
  int device_index() const { return runtime_.index(); }

 private:
  HipKernel(const HipRuntime& runtime, const HipLimits& limits, std::string name)
      : runtime_(runtime), limits_(limits), name_(std::move(name)) {}
  Status load_code(const Artifact& artifact);
  Status look_at(std::span<const std::byte> image, const std::string& entry, const std::string& what);
  Status refuse(std::string_view message) const;
  Status check_shape(std::span<const std::byte> args, const LaunchShape& shape) const;

  const HipRuntime& runtime_;
  const HipLimits& limits_;
  const std::string name_;  // in messages
  HipModule module_ = nullptr;
  HipFunction function_ = nullptr;
  size_t arg_bytes_ = 0;  // 0 = none, or not known
  int static_lds_ = 0, max_threads_ = 0;
};

}  // namespace tilewright::hip
