// SPDX-License-Identifier: MIT
// gemm_generic: one kernel, typed at run time, always built for the baseline target. Every valid problem runs.
#include <fmt/format.h>

#include "ops/gemm/families/cpu/gemm_cpu_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {
namespace {

constexpr std::string_view kTarget = "x86-64";

const KernelKey& generic_key() {
  static const KernelKey kKey = make_key("gemm", "gemm_generic", kTarget, "any", "run_time=1");
  return kKey;
}

class GemmGenericFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_generic"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kReference; }
  bool generic() const override { return true; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    if (device.id.kind != DeviceKind::kCpu) {
      return unsupported("gemm_generic: runs on cpu, not on " + to_string(device.id));
    }
    // Its order of summation is not the one that batch_invariant promises, unless no other family serves the device.
    const auto& p = problem_cast<GemmProblem>(ref);
    if (p.b_packed == kPackedFragments) return unsupported("gemm_generic: B is packed as NVIDIA GPUs read it");
    const auto others = [&](const KernelFamily& family) {
      return unsupported(
          fmt::format("gemm_generic: batch_invariant: this device's order of summation is {}'s", family.name()));
    };
    if (p.batch_invariant && p.k != 0) {
      if (check_plain_product(p) && !cpu_mma_choices(device, p.a_dtype).empty()) return others(gemm_cpu_family());
      if (gemm_dequant_cpu_family().supports(ref, device)) return others(gemm_dequant_cpu_family());
    }
    return {};
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    return {{{generic_key(), {}}, gemm_generic_cost(problem_cast<GemmProblem>(ref), device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (!(step.key == generic_key()))
      return Status(StatusCode::kNotFound, "gemm_generic: no such kernel: " + step.key.text);
    return supports(ref, device);
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return gemm_generic_cost(problem_cast<GemmProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "generic"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    if (!(key == generic_key())) return Status(StatusCode::kNotFound, "gemm_generic: no such kernel: " + key.text);
    CompileRequest request;
    request.target = key.target;
    request.name = "gemm_generic";
    request.entry = "tw_gemm_generic";
    request.source = cpu_instance_source("gemm/cpu/gemm_generic.hpp", request.entry, "gemm_generic", "GemmScaledArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    return target == kTarget ? std::vector<KernelKey>{generic_key()} : std::vector<KernelKey>{};
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    return std::vector<Stage>{
        gemm_scaled_stage(problem_cast<GemmProblem>(ref), {}, static_cast<uint32_t>(device.units), std::move(kernel))};
  }
};

}  // namespace

const KernelFamily& gemm_generic_family() {
  static const GemmGenericFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
