// SPDX-License-Identifier: MIT
// moe_routing_cpu, an instance for each type of logits, and moe_routing_generic, which is typed at run time and always built: every
// valid problem runs.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/moe_routing/families/moe_routing_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kRouterElementSeconds = 0.4e-9, kGenericRouterElementSeconds = 3e-9, kRouterLaunchSeconds = 3e-6;
constexpr std::string_view kGenericRouterTarget = "x86-64";

class MoeRoutingCpuFamily final : public KernelFamily {
 public:
  explicit MoeRoutingCpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "moe_routing_generic" : "moe_routing_cpu"; }
  std::string_view op() const override { return "moe_routing"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return refuse_router(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_router(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<MoeRoutingProblem>(ref);
    if (generic_) return {{{generic_router_key(), {}}, predict_router(p, device)}};
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target)) return {{{router_key({p.x}, arch->target), {}}, predict_router(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    MoeRoutingCpuConfig config{};
    if (Status s = parse_router_config(step.key, config); !s || generic_) return s;
    const DType x = problem_cast<MoeRoutingProblem>(ref).x;
    if (config.x == x) return {};
    return refuse_router(fmt::format("kernel takes {}, the problem is {}", dtype_name(config.x), dtype_name(x)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_router(problem_cast<MoeRoutingProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep& step) const override {
    return step.key.target == kGenericRouterTarget ? "lanes16x4" : "lanes16x4:fma";
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    MoeRoutingCpuConfig config{};
    if (Status s = parse_router_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), dtype_name(config.x));
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source = cpu_instance_source(
        "moe_routing/moe_routing_cpu.hpp", request.entry,
        fmt::format("moe_routing_cpu<tilewright::{}{}>", MoeRoutingCpuConfig::kTypeName, cpp_initializer(config)),
        "MoeRoutingArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kGenericRouterTarget) keys.push_back(generic_router_key());
    if (generic_ || !is_vector_level(target)) return keys;
    for (const DType x : {DType::kF32, DType::kF16, DType::kBf16}) keys.push_back(router_key({x}, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<MoeRoutingProblem>(ref);
    Stage stage = moe_routing_stage(p, 0, std::move(kernel));
    share_work(stage.shape, predict_router(p, device), p.tokens, device);
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  Status refuse_router(const std::string& message) const { return unsupported(fmt::format("{}: {}", name(), message)); }
  KernelKey generic_router_key() const { return make_key(op(), name(), kGenericRouterTarget, "any", "run_time=1"); }
  KernelKey router_key(const MoeRoutingCpuConfig& config, std::string_view target) const {
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_router_config(const KernelKey& key, MoeRoutingCpuConfig& config) const {
    if (generic_) {
      if (key == generic_router_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_router(key.text + ": " + s.message());
    if (!(key == router_key(config, key.target)))
      return refuse_router(key.text + ": signature and config name different types");
    if (!runs_on("x86-64-v3", key.target)) return refuse_router(key.text + ": needs x86-64-v3 or better");
    if (config.x == DType::kF32 || config.x == DType::kF16 || config.x == DType::kBf16) return {};
    return refuse_router(fmt::format("{}: x, allowed: f32, f16, bf16", key.text));
  }
  double predict_router(const MoeRoutingProblem& p, const DeviceSpec& device) const {
    const double elements = static_cast<double>(p.tokens) * static_cast<double>(p.experts);
    return kRouterLaunchSeconds +
           elements * (generic_ ? kGenericRouterElementSeconds : kRouterElementSeconds) / device.units;
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& moe_routing_cpu_family() {
  static const MoeRoutingCpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& moe_routing_generic_family() {
  static const MoeRoutingCpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
