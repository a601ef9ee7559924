// SPDX-License-Identifier: MIT
// grouped_gemm_generic and grouped_gemm_generic_gpu: one kernel for CPUs, one a GPU target, typed at run time. Every valid
// problem runs.
#include <fmt/format.h>

#include <algorithm>

#include "grouped_gemm/gpu/grouped_generic_shape.hpp"
#include "ops/gemm/families/cpu/gemm_cpu_cost.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"

namespace tilewright {
namespace {

class GroupedGenericFamily final : public KernelFamily {
 public:
  GroupedGenericFamily(std::string_view name, bool gpu) : name_(name), gpu_(gpu) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return "grouped_gemm"; }
  Backend backend() const override { return Backend::kReference; }
  bool generic() const override { return true; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    if (is_gpu(device.arch) != gpu_) {
      return unsupported(fmt::format("{}: {} is {} GPU", name_, device.arch->target, gpu_ ? "no" : "a"));
    }
    const GemmProblem& g = problem_cast<GroupedGemmProblem>(ref).gemm;
    Status s = gpu_                             ? check_packed_bits(g, device)
               : g.b_packed == kPackedFragments ? unsupported("B is packed as NVIDIA GPUs read it")
                                                : Status();
    if (!s) return unsupported(fmt::format("{}: {}", name_, s.message()));
    // Its order of summation is not the one that batch_invariant promises, unless no other family serves the problem.
    for (const KernelFamily* usual : {&grouped_gemm_cpu_family(), &grouped_dequant_cpu_family()}) {
      if (gpu_ || !g.batch_invariant || !usual->supports(ref, device)) continue;
      return unsupported(
          fmt::format("{}: batch_invariant: this device's order of summation is {}'s", name_, usual->name()));
    }
    return {};
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const RecipeStep step{key_of(gpu_ ? device.arch->target : kCpuTarget), {}};
    return {{step, cost(ref, device, step)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = check_key(step.key); !s) return s;
    return supports(ref, device);
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    const GemmProblem work = equal_work(problem_cast<GroupedGemmProblem>(ref));
    return gpu_ ? gemm_generic_gpu_cost(work, device) : gemm_generic_cost(work, device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "generic"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    if (Status s = check_key(key); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = name_;
    request.entry = fmt::format("tw_{}", name_);
    request.source =
        gpu_
            ? gpu_instance_source(find_arch(key.target)->vendor, "grouped_gemm/gpu/grouped_gemm_generic_gpu.cuh",
                                  request.entry, name_, "GroupedGemmArgs", kGenericThreads, kGenericBlocks)
            : cpu_instance_source("grouped_gemm/cpu/grouped_gemm_generic.hpp", request.entry, name_, "GroupedGemmArgs");
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey&) const override { return gpu_ ? kGroupedGenericBytes : 0; }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    const bool built = gpu_ ? arch != nullptr && is_gpu(arch) : target == kCpuTarget;
    return built ? std::vector<KernelKey>{key_of(target)} : std::vector<KernelKey>{};
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    if (!gpu_) {
      return std::vector<Stage>{grouped_gemm_stage(p, 0, static_cast<uint32_t>(device.units), std::move(kernel))};
    }
    const auto grid = static_cast<uint32_t>(std::clamp(most_tiles(p), 1.0, 4.0 * std::max(device.units, 1)));
    Stage stage = grouped_gemm_stage(p, grid, 1, std::move(kernel));
    stage.shape.grid = {grid, 1, 1};
    stage.shape.threads = kGenericThreads;
    stage.shape.shared_bytes = kGroupedGenericBytes;
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  static constexpr std::string_view kCpuTarget = "x86-64";

  static bool is_gpu(const ArchSpec* arch) { return arch->vendor != ArchVendor::kX86; }
  KernelKey key_of(std::string_view target) const {
    return make_key("grouped_gemm", name_, target, "any", "run_time=1");
  }
  Status check_key(const KernelKey& key) const {
    const ArchSpec* arch = find_arch(key.target);
    if (arch != nullptr && (gpu_ ? is_gpu(arch) : key.target == kCpuTarget) && key == key_of(key.target)) return {};
    return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
  }

  // However the rows are spread: each group may have a tile that is not full.
  static double most_tiles(const GroupedGemmProblem& p) {
    const GenericTiles tiles = gemm_generic_tiles(p.gemm.m, p.gemm.n, p.gemm.gate);
    const double groups = static_cast<double>(p.gemm.batch), m = static_cast<double>(tiles.m);
    return (p.mode == GroupMode::kContiguous ? m + groups : m * groups) * static_cast<double>(tiles.n);
  }

  const std::string_view name_;
  const bool gpu_;
};

}  // namespace

const KernelFamily& grouped_gemm_generic_family() {
  static const GroupedGenericFamily kFamily("grouped_gemm_generic", false);
  return kFamily;
}

const KernelFamily& grouped_gemm_generic_gpu_family() {
  static const GroupedGenericFamily kFamily("grouped_gemm_generic_gpu", true);
  return kFamily;
}

}  // namespace tilewright
