// SPDX-License-Identifier: MIT
// grouped_gemm_cpu and grouped_dequant_cpu: the instances of gemm_cpu and gemm_dequant_cpu, group after group. What those would choose
// for a usual group is a candidate here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/fields.hpp"
#include "grouped_gemm/cpu/grouped_cpu_blocking.hpp"
#include "ops/gemm/families/cpu/cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"

namespace tilewright {
namespace {

// A group as long as they are on average, on its own.
GemmProblem usual_group(const GroupedGemmProblem& p) {
  GemmProblem group = p.gemm;
  group.m = std::clamp<int64_t>(std::llround(static_cast<double>(p.likely_rows()) / std::max(1.0, likely_groups(p))), 1,
                                std::max<int64_t>(p.gemm.m, 1));
  group.batch = 1;
  return group;
}

// Of one unit's workspace.
int64_t grouped_unit_bytes(const GemmCpuConfig& config, const GroupedGemmProblem& p, int units) {
  return tilewright::grouped_unit_bytes(config, gemm_cpu_sizes(gemm_args(p.gemm, {})), units);
}
int64_t grouped_unit_bytes(const GemmDequantCpuConfig& config, const GroupedGemmProblem& p, int units) {
  const GemmScaledArgs args = gemm_scaled_args(p.gemm, {});
  return tilewright::grouped_unit_bytes(config.product(), gemm_dequant_cpu_sizes(config, args), units);
}

// Config: of the family of gemm whose kernels multiply the groups.
template <class Config>
class GroupedCpuFamily final : public KernelFamily {
 public:
  GroupedCpuFamily(std::string_view name, const KernelFamily& of_gemm) : name_(name), of_gemm_(of_gemm) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return "grouped_gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    if (p.mode == GroupMode::kRaggedK)
      return refuse_grouped("mode is ragged_k, the kernel takes contiguous and masked");
    if (p.indexed()) return refuse_grouped("indices name rows, the kernel takes them as they lie");
    const Status s = of_gemm_.supports(erase(usual_group(p)), device);
    return s ? s : refuse_grouped(s.message());
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    const GemmProblem group = usual_group(p);
    std::vector<Candidate> found;
    for (const Candidate& c : of_gemm_.candidates(erase(group), device)) {
      // Its own blocks only: those of a table would be for one size.
      if (c.step.knobs.values[0] != 0 || c.step.knobs.values[1] != 0 || c.step.knobs.values[2] != 0) continue;
      found.push_back({{grouped_key(c.step.key), {}}, c.cost * std::max(1.0, likely_groups(p))});
    }
    return found;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    const GemmProblem group = usual_group(problem_cast<GroupedGemmProblem>(ref));
    const Status s = of_gemm_.check(erase(group), device, {gemm_key(step.key), {}});
    return s ? s : refuse_grouped(s.message());
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    const GemmProblem group = usual_group(p);
    return of_gemm_.cost(erase(group), device, {gemm_key(step.key), {}}) * std::max(1.0, likely_groups(p));
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    return unit_bytes(problem_cast<GroupedGemmProblem>(ref), device, step) * device.units;
  }
  std::string numerics_id(const RecipeStep& step) const override {
    return of_gemm_.numerics_id({gemm_key(step.key), {}});
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    // The family of gemm says whether the config is legal, and what the file is called.
    Result<CompileRequest> request = of_gemm_.source(gemm_key(key));
    Config config;
    if (!request) return request.status();
    if (Status s = parse_fields(key.config(), config); !s) return s;
    request->name = name_ + request->name.substr(of_gemm_.name().size());
    request->entry = fmt::format("tw_{}_{}", name_, key.digest.hex());
    request->source =
        "#include \"gemm/cpu/gemm_support_cpu.hpp\"\n" +
        cpu_instance_source(fmt::format("grouped_gemm/cpu/{}.hpp", name_), request->entry,
                            fmt::format("{}<tilewright::{}{}>", name_, Config::kTypeName, cpp_initializer(config)),
                            "GroupedGemmArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    for (const KernelKey& key : of_gemm_.builtin_keys(target)) keys.push_back(grouped_key(key));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    return std::vector<Stage>{
        grouped_gemm_stage(p, unit_bytes(p, device, step), static_cast<uint32_t>(device.units), std::move(kernel))};
  }

 private:
  KernelKey grouped_key(const KernelKey& of_gemm) const {
    return make_key("grouped_gemm", name_, of_gemm.target, of_gemm.signature(), of_gemm.config());
  }
  KernelKey gemm_key(const KernelKey& grouped) const {
    return make_key("gemm", of_gemm_.name(), grouped.target, grouped.signature(), grouped.config());
  }
  Status refuse_grouped(std::string_view message) const { return unsupported(fmt::format("{}: {}", name_, message)); }

  static int64_t unit_bytes(const GroupedGemmProblem& p, const DeviceSpec& device, const RecipeStep& step) {
    Config config;
    if (!parse_fields(step.key.config(), config)) return 0;
    return grouped_unit_bytes(config, p, device.units);
  }

  const std::string name_;
  const KernelFamily& of_gemm_;
};

}  // namespace

const KernelFamily& grouped_gemm_cpu_family() {
  static const GroupedCpuFamily<GemmCpuConfig> kFamily("grouped_gemm_cpu", gemm_cpu_family());
  return kFamily;
}

const KernelFamily& grouped_dequant_cpu_family() {
  static const GroupedCpuFamily<GemmDequantCpuConfig> kFamily("grouped_dequant_cpu", gemm_dequant_cpu_family());
  return kFamily;
}

}  // namespace tilewright
