// SPDX-License-Identifier: MIT
// A kernel that a CUDA device has loaded, and its launch.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/driver/driver.hpp"
#include "device/device.hpp"

namespace tilewright::cuda {

// Where a kernel is loaded: one device, its primary context.
struct Place {
  const Driver* driver = nullptr;
  CuDevice device = 0;
  CuContext context = nullptr;
  int index = 0;
  int capability_major = 0;
  int shared_limit = 0;  // most shared memory that a block can be given
};

class CudaKernel final : public LoadedKernel {
 public:
  // Loads the code at once (not at the first launch, which may be captured) and allows it all shared memory that there is.
  static Result<std::shared_ptr<const LoadedKernel>> load(const Place& place, const Artifact& artifact);
  ~CudaKernel() override;

  Status launch(std::span<const std::byte> args, const LaunchShape& shape, const LaunchContext& context) const;
  int device_index() const { return place_.index; }

 private:
  CudaKernel(const Place& place, std::string name) : place_(place), name_(std::move(name)) {}
  Status load_code(const Artifact& artifact);
  Status refuse(std::string_view message) const;
  Status check_shape(std::span<const std::byte> args, const LaunchShape& shape) const;

  const Place place_;
  const std::string name_;  // in messages
  CuLibrary library_ = nullptr;
  CuFunction function_ = nullptr;
  size_t arg_bytes_ = 0;  // 0 = none, or the driver does not tell
  int static_shared_ = 0, max_threads_ = 0;
};

}  // namespace tilewright::cuda
