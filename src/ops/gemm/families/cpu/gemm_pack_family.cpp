// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cpu/gemm_pack_family.hpp"

#include <fmt/format.h>

#include <map>

namespace tilewright {
namespace {

// One kernel a target: dtypes and strides are arguments.
KernelKey key_of(std::string_view target) { return make_key("gemm", "gemm_pack_cpu", target, "any", "run_time=1"); }

class GemmPackFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_pack_cpu"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }
  Status supports(ProblemRef, const DeviceSpec&) const override {
    return unsupported("gemm_pack_cpu: packs weights; it does not multiply");
  }
  std::vector<Candidate> candidates(ProblemRef, const DeviceSpec&) const override { return {}; }
  Status check(ProblemRef problem, const DeviceSpec& device, const RecipeStep&) const override {
    return supports(problem, device);
  }
  double cost(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "exact"; }
  std::span<const std::string_view> knob_names() const override { return {}; }
  Result<CompileRequest> source(const KernelKey& key) const override {
    const ArchSpec* arch = find_arch(key.target);
    if (arch == nullptr || arch->vendor != ArchVendor::kX86 || !(key == key_of(key.target))) {
      return Status(StatusCode::kNotFound, "gemm_pack_cpu: no such kernel: " + key.text);
    }
    CompileRequest request;
    request.target = key.target;
    request.name = "gemm_pack_cpu";
    request.entry = "tw_gemm_pack_cpu_" + key.digest.hex();
    request.source = cpu_instance_source("gemm/cpu/gemm_pack_cpu.hpp", request.entry, "gemm_pack_cpu", "GemmPackArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    // Baseline, AVX2 and AVX-512; targets above add no instruction that packing uses.
    if (target != "x86-64" && target != "x86-64-v3" && target != "x86-64-v4") return {};
    return {key_of(target)};
  }
  Result<std::vector<Stage>> stages(ProblemRef problem, const DeviceSpec& device, const RecipeStep&,
                                    std::shared_ptr<const LoadedKernel>) const override {
    return supports(problem, device);
  }
};

}  // namespace

const KernelFamily& gemm_pack_family() {
  static const GemmPackFamily kFamily;
  return kFamily;
}

const KernelKey& gemm_pack_key(const DeviceSpec& device) {
  static const KernelKey kBaseline = key_of("x86-64"), kAvx2 = key_of("x86-64-v3"), kAvx512 = key_of("x86-64-v4");
  if (runs_on("x86-64-v4", device.arch->target)) return kAvx512;
  return runs_on("x86-64-v3", device.arch->target) ? kAvx2 : kBaseline;
}

}  // namespace tilewright
