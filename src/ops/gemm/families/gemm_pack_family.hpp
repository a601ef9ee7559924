// SPDX-License-Identifier: MIT
// Kernels that pack weights: always built, one a target, typed at run time. A family of them multiplies nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dispatch/registry/family.hpp"

namespace tilewright {

class GemmPackFamily final : public KernelFamily {
 public:
  struct Kind {
    std::string_view name;                        // also the kernel's
    bool (*compiles)(std::string_view target);    // whether it has a kernel of the target
    bool (*is_carried)(std::string_view target);  // and the library one, of those
    std::string (*entry)(const KernelKey& key);
    std::string (*source)(const std::string& entry);
  };
  explicit GemmPackFamily(const Kind& kind) : kind_(kind) {}

  KernelKey key(std::string_view target) const { return make_key("gemm", kind_.name, target, "any", "run_time=1"); }

  std::string_view name() const override { return kind_.name; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }
  Status supports(ProblemRef problem, const DeviceSpec& device) const override;
  std::vector<Candidate> candidates(ProblemRef, const DeviceSpec&) const override { return {}; }
  Status check(ProblemRef problem, const DeviceSpec& device, const RecipeStep&) const override {
    return supports(problem, device);
  }
  double cost(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "exact"; }
  std::span<const std::string_view> knob_names() const override { return {}; }
  Result<CompileRequest> source(const KernelKey& key) const override;
  std::vector<KernelKey> builtin_keys(std::string_view target) const override;
  Result<std::vector<Stage>> stages(ProblemRef problem, const DeviceSpec& device, const RecipeStep&,
                                    std::shared_ptr<const LoadedKernel>) const override {
    return supports(problem, device);
  }

 private:
  const Kind kind_;
};

}  // namespace tilewright
