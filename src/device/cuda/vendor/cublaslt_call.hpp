// SPDX-License-Identifier: MIT
// One multiplication by cuBLASLt, ready but for addresses and scalars.
#pragma once

#include <string>

#include "device/cuda/vendor/cublaslt.hpp"
#include "device/cuda/vendor/cublaslt_descriptors.hpp"

namespace tilewright::cuda {

class LtCall final : public HostCall {
 public:
  LtCall(const LtLibrary& library, const Place& place, LtHandle handle, const LtProblem& problem,
         const LtDescriptors& descriptors, const LtHeuristic& algorithm, std::string name)
      : library_(library),
        place_(place),
        handle_(handle),
        has_bias_(problem.has_bias),
        scaled_a_(problem.scale_a != LtScale::kNone),
        scaled_b_(problem.scale_b != LtScale::kNone),
        integer_(problem.compute == LtCompute::kI32),
        descriptors_(descriptors),
        algorithm_(algorithm),
        name_(std::move(name)) {}

  Status run(std::span<const std::byte> args, const LaunchContext& context) const override;

 private:
  LtStatus set_pointers(const LtArgs& args, LtMatmulDescriptor& descriptor) const;

  const LtLibrary& library_;
  const Place place_;
  const LtHandle handle_;  // the device's, which outlives plans
  const bool has_bias_, scaled_a_, scaled_b_, integer_;
  const LtDescriptors descriptors_;
  const LtHeuristic algorithm_;
  const std::string name_;  // in messages
};

}  // namespace tilewright::cuda
