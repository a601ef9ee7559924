// SPDX-License-Identifier: MIT
// A GPU family of gemm with a compile-time config: what is built ahead of time, for the usual problems. A family adds its candidates and
// what is its own.
#pragma once

#include <cstddef>

#include "ops/gemm/families/gpu/gpu_config_family.hpp"

namespace tilewright {

template <class Config>
class GpuFamily : public GpuConfigFamily<GemmProblem, Config> {
 public:
  std::vector<KernelKey> builtin_keys(std::string_view target) const final {
    std::vector<KernelKey> keys;
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || arch->vendor != this->vendor()) return keys;
    for (const GemmProblem& p : usual_gpu_problems(*arch)) {
      for (const Config& config : builtin_configs(p, *arch)) {
        if (this->refusal_of(config, *arch) == nullptr) keys.push_back(this->key_of(config, target));
      }
    }
    return keys;
  }

 protected:
  using typename GpuConfigFamily<GemmProblem, Config>::Kernel;
  using GpuConfigFamily<GemmProblem, Config>::GpuConfigFamily;

  virtual std::vector<Config> builtin_configs(const GemmProblem& problem, const ArchSpec& arch) const = 0;
};

// The stage of a kernel whose arguments hold GemmArgs as `gemm`: their places move with them.
template <class Args>
Stage enclosing_stage(const GemmProblem& problem, Args args, std::shared_ptr<const LoadedKernel> kernel) {
  Stage stage = gemm_stage(problem, {}, 1, std::move(kernel));
  enclose_args(stage, args);
  return stage;
}

}  // namespace tilewright
