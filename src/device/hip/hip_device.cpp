// SPDX-License-Identifier: MIT
// An AMD GPU as a device.
#include "device/hip/hip_device.hpp"

#include <fmt/format.h>

#include "device/gpu/gpu_device.hpp"
#include "device/hip/device_info.hpp"
#include "device/hip/hip_kernel.hpp"

namespace tilewright {
namespace hip {
namespace {

class HipDevice final : public gpu::GpuDevice {
 public:
  HipDevice(std::unique_ptr<const HipRuntime> runtime, DeviceSpec spec, HipLimits limits)
      : GpuDevice(std::move(runtime), std::move(spec)),
        own_(static_cast<const HipRuntime&>(*runtime_)),
        limits_(std::move(limits)) {}

  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) override {
    const bool emulated = own_.driver().emulated;
    if (Status s = check_artifact(artifact, emulated ? ArtifactKind::kEmulated : ArtifactKind::kAmdObject,
                                  emulated ? "emulated object" : "AMD code object");
        !s) {
      return s;
    }
    return HipKernel::load(own_, limits_, artifact);
  }

  Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                const LaunchContext& context) override {
    const Result<const HipKernel*> loaded = loaded_here<HipKernel>(kernel);
    return loaded ? (*loaded)->launch(args, shape, context) : loaded.status();
  }

  std::string power_state() const override {
    if (spec_.emulated || spec_.clock_ghz <= 0) return "";
    return fmt::format("max_clock={:.0f}", spec_.clock_ghz * 1e3);
  }

  Result<DeviceLimits> measure_limits(double, const ProbeCompiler&) override {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: limits are not measured: there are no probes for AMD GPUs", where()));
  }

 private:
  const HipRuntime& own_;
  const HipLimits limits_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_device(const Driver& driver, int index) {
  Result<DeviceSpec> spec = read_device_spec(driver, index);
  if (!spec) return spec.status();
  Result<std::string> processor = processor_of(driver, index);
  if (!processor) return processor.status();
  HipLimits limits{.processor = std::move(*processor)};
  if (Status s = check(driver, driver.hipDeviceGetAttribute(&limits.lds_bytes, DeviceAttribute::kSharedPerBlock, index),
                       to_string(spec->id));
      !s) {
    return s;
  }
  return std::unique_ptr<Device>(
      std::make_unique<HipDevice>(std::make_unique<HipRuntime>(driver, index), std::move(*spec), std::move(limits)));
}

}  // namespace hip

Result<int> hip_device_count() {
  Result<const hip::Driver*> driver = hip::driver();
  if (!driver) return driver.status();
  int count = 0;
  if (Status s = hip::check(**driver, (*driver)->hipGetDeviceCount(&count), "hip: devices"); !s) return s;
  return count;
}

Result<std::unique_ptr<Device>> make_hip_device(int index) {
  Result<int> count = hip_device_count();
  if (!count) return count.status();
  if (index < 0 || index >= *count) {
    return Status(StatusCode::kNotFound, fmt::format("hip:{}: no such device; this process sees {} HIP device{}", index,
                                                     *count, *count == 1 ? "" : "s"));
  }
  return hip::make_device(**hip::driver(), index);
}

}  // namespace tilewright
