// SPDX-License-Identifier: MIT
// grouped_gemm_cpu: gemm_cpu's instances, group after group. What gemm_cpu would choose for a usual group is a candidate here.
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

constexpr std::string_view kGroupedCpu = "grouped_gemm_cpu";

KernelKey grouped_key(const KernelKey& of_gemm) {
  return make_key("grouped_gemm", kGroupedCpu, of_gemm.target, of_gemm.signature(), of_gemm.config());
}
KernelKey gemm_key(const KernelKey& grouped) {
  return make_key("gemm", "gemm_cpu", grouped.target, grouped.signature(), grouped.config());
}
Status refuse_grouped(std::string_view message) { return unsupported(fmt::format("{}: {}", kGroupedCpu, message)); }

// A group as long as they are on average, on its own.
GemmProblem usual_group(const GroupedGemmProblem& p) {
  GemmProblem group = p.gemm;
  group.m = std::clamp<int64_t>(std::llround(static_cast<double>(p.likely_rows()) / std::max(1.0, likely_groups(p))), 1,
                                std::max<int64_t>(p.gemm.m, 1));
  group.batch = 1;
  return group;
}

class GroupedGemmCpuFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return kGroupedCpu; }
  std::string_view op() const override { return "grouped_gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    if (p.mode == GroupMode::kRaggedK)
      return refuse_grouped("mode is ragged_k, the kernel takes contiguous and masked");
    if (p.indexed()) return refuse_grouped("indices name rows, the kernel takes them as they lie");
    const GemmProblem group = usual_group(p);
    Status s = check_cpu_problem(group, device);
    if (s && cpu_mma_choices(device, group.a_dtype).empty()) {
      s = unsupported(fmt::format("{} has no instruction for {}", device.arch->target, dtype_name(group.a_dtype)));
    }
    return s ? s : refuse_grouped(s.message());
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    const GemmProblem group = usual_group(p);
    std::vector<Candidate> found;
    for (const Candidate& c : gemm_cpu_family().candidates(erase(group), device)) {
      // Its own blocks only: those of a table would be for one size.
      if (c.step.knobs.values[0] != 0 || c.step.knobs.values[1] != 0 || c.step.knobs.values[2] != 0) continue;
      found.push_back({{grouped_key(c.step.key), {}}, c.cost * std::max(1.0, likely_groups(p))});
    }
    return found;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    const GemmProblem group = usual_group(problem_cast<GroupedGemmProblem>(ref));
    const Status s = gemm_cpu_family().check(erase(group), device, {gemm_key(step.key), {}});
    return s ? s : refuse_grouped(s.message());
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    const GemmProblem group = usual_group(p);
    return gemm_cpu_family().cost(erase(group), device, {gemm_key(step.key), {}}) * std::max(1.0, likely_groups(p));
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    return unit_bytes(problem_cast<GroupedGemmProblem>(ref), device, step) * device.units;
  }
  std::string numerics_id(const RecipeStep& step) const override {
    return gemm_cpu_family().numerics_id({gemm_key(step.key), {}});
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemmCpuConfig config;
    // gemm_cpu says whether the config is legal.
    if (Result<CompileRequest> of_gemm = gemm_cpu_family().source(gemm_key(key)); !of_gemm) return of_gemm.status();
    if (Status s = parse_fields(key.config(), config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name =
        fmt::format("{}-{}-{}x{}", kGroupedCpu, fields_detail::print_value(config.mma), config.tile_m, config.tile_n);
    request.entry = fmt::format("tw_{}_{}", kGroupedCpu, key.digest.hex());
    request.source = "#include \"gemm/cpu/gemm_support_cpu.hpp\"\n" +
                     cpu_instance_source("grouped_gemm/cpu/grouped_gemm_cpu.hpp", request.entry,
                                         fmt::format("{}<tilewright::{}{}>", kGroupedCpu, GemmCpuConfig::kTypeName,
                                                     cpp_initializer(config)),
                                         "GroupedGemmArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    for (const KernelKey& key : gemm_cpu_family().builtin_keys(target)) keys.push_back(grouped_key(key));
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
  static int64_t unit_bytes(const GroupedGemmProblem& p, const DeviceSpec& device, const RecipeStep& step) {
    GemmCpuConfig config;
    if (!parse_fields(step.key.config(), config)) return 0;
    return grouped_unit_bytes(config, gemm_args(p.gemm, {}), device.units);
  }
};

}  // namespace

const KernelFamily& grouped_gemm_cpu_family() {
  static const GroupedGemmCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
