// SPDX-License-Identifier: MIT
// gemm_generic_gpu: the kernel that is typed at run time, on every GPU. One instance a target.
#include <algorithm>

#include <fmt/format.h>

#include "gemm/gpu/gemm_generic_shape.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

KernelKey generic_key(std::string_view target) {
  return make_key("gemm", "gemm_generic_gpu", target, "any", "run_time=1");
}

Status refuse(std::string_view message) { return unsupported(fmt::format("gemm_generic_gpu: {}", message)); }

class GemmGenericGpuFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_generic_gpu"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kReference; }
  bool generic() const override { return true; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    if (device.arch->vendor == ArchVendor::kX86) return refuse(fmt::format("{} is no GPU", device.arch->target));
    // Its order of summation is not the one that batch_invariant promises, unless no other family serves the problem.
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = check_packed_bits(p, device); !s) return refuse(s.message());
    const KernelFamily& usual = device.arch->vendor == ArchVendor::kAmd ? gemm_amd_family() : gemm_portable_family();
    if (p.batch_invariant && usual.supports(ref, device)) {
      return refuse(fmt::format("batch_invariant: this device's order of summation is {}'s", usual.name()));
    }
    return {};
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    return {{{generic_key(device.arch->target), {}}, gemm_generic_gpu_cost(problem_cast<GemmProblem>(ref), device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = check_key(step.key); !s) return s;
    return supports(ref, device);
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return gemm_generic_gpu_cost(problem_cast<GemmProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "generic"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    if (Status s = check_key(key); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = "gemm_generic_gpu";
    request.entry = "tw_gemm_generic_gpu";
    request.source = gpu_instance_source(find_arch(key.target)->vendor, "gemm/gpu/gemm_generic_gpu.cuh", request.entry,
                                         "gemm_generic_gpu", "GemmScaledArgs", kGenericThreads, kGenericBlocks);
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    return gpu ? std::vector<KernelKey>{generic_key(target)} : std::vector<KernelKey>{};
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GemmProblem>(ref);
    const double blocks = static_cast<double>(gemm_generic_tiles(p.m, p.n, p.gate).m) *
                          static_cast<double>(gemm_generic_tiles(p.m, p.n, p.gate).n) * static_cast<double>(p.batch);
    // The kernel goes on where the grid ends: it is told how far that is. AMD GPUs count work-items in 32 bits.
    const double grid = std::clamp(blocks, 1.0, device.arch->vendor == ArchVendor::kAmd ? 0x1p23 : 0x1p30);
    Stage stage = gemm_scaled_stage(p, {static_cast<int64_t>(grid), 0, 0}, 1, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stage.shape.threads = kGenericThreads;
    stage.shape.shared_bytes = kGenericSharedBytes;
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  static Status check_key(const KernelKey& key) {
    const ArchSpec* arch = find_arch(key.target);
    if (arch != nullptr && arch->vendor != ArchVendor::kX86 && key == generic_key(key.target)) return {};
    return Status(StatusCode::kNotFound, "gemm_generic_gpu: no such kernel: " + key.text);
  }
};

}  // namespace

const KernelFamily& gemm_generic_gpu_family() {
  static const GemmGenericGpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
