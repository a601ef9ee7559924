// SPDX-License-Identifier: MIT
// NVIDIA's libraries on one device, each opened when a family first asks for it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "device/cuda/vendor/cublaslt.hpp"

namespace tilewright::cuda {

class CudaLibraries final : public VendorLibraries {
 public:
  // `units`: SMs of the device. `open`: the process's cuBLASLt.
  CudaLibraries(const Place& place, int units, std::function<Result<const LtLibrary*>()> open = lt_library)
      : place_(place), units_(units), open_(std::move(open)) {}

  std::vector<VendorLibrary> list() const override;
  int units() const { return units_; }
  // The error says why there is none; a failure is tried again.
  Result<const CublasLt*> cublaslt() const;

 private:
  const Place place_;
  const int units_;
  const std::function<Result<const LtLibrary*>()> open_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<CublasLt> cublaslt_;
};

}  // namespace tilewright::cuda
