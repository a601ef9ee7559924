// SPDX-License-Identifier: MIT
// apply_penalties_cpu, an instance for each type of logits, and apply_penalties_generic, which is typed at run time and always built: every
// valid problem runs.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/apply_penalties/families/apply_penalties_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kApplyPenaltiesElementSeconds = 0.4e-9, kGenericApplyPenaltiesElementSeconds = 3e-9,
                 kApplyPenaltiesLaunchSeconds = 3e-6;
constexpr std::string_view kGenericApplyPenaltiesTarget = "x86-64";

class ApplyPenaltiesCpuFamily final : public KernelFamily {
 public:
  explicit ApplyPenaltiesCpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "apply_penalties_generic" : "apply_penalties_cpu"; }
  std::string_view op() const override { return "apply_penalties"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86)
      return refuse_apply_penalties(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_apply_penalties(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<ApplyPenaltiesProblem>(ref);
    if (generic_) return {{{generic_apply_penalties_key(), {}}, predict_apply_penalties(p, device)}};
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target))
        return {{{apply_penalties_key({p.x}, arch->target), {}}, predict_apply_penalties(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    ApplyPenaltiesConfig config{};
    if (Status s = parse_apply_penalties_config(step.key, config); !s || generic_) return s;
    const DType x = problem_cast<ApplyPenaltiesProblem>(ref).x;
    if (config.x == x) return {};
    return refuse_apply_penalties(
        fmt::format("kernel takes {}, the problem is {}", dtype_name(config.x), dtype_name(x)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_apply_penalties(problem_cast<ApplyPenaltiesProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "elements"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    ApplyPenaltiesConfig config{};
    if (Status s = parse_apply_penalties_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), dtype_name(config.x));
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source = cpu_instance_source(
        "apply_penalties/apply_penalties_cpu.hpp", request.entry,
        fmt::format("apply_penalties_cpu<tilewright::{}{}>", ApplyPenaltiesConfig::kTypeName, cpp_initializer(config)),
        "ApplyPenaltiesArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kGenericApplyPenaltiesTarget) keys.push_back(generic_apply_penalties_key());
    if (generic_ || !is_vector_level(target)) return keys;
    for (const DType x : {DType::kF32, DType::kF16, DType::kBf16}) keys.push_back(apply_penalties_key({x}, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<ApplyPenaltiesProblem>(ref);
    Stage stage = apply_penalties_stage(p, 0, std::move(kernel));
    share_work(stage.shape, predict_apply_penalties(p, device), p.rows * penalty_chunks(p), device);
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  Status refuse_apply_penalties(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey generic_apply_penalties_key() const {
    return make_key(op(), name(), kGenericApplyPenaltiesTarget, "any", "run_time=1");
  }
  KernelKey apply_penalties_key(const ApplyPenaltiesConfig& config, std::string_view target) const {
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_apply_penalties_config(const KernelKey& key, ApplyPenaltiesConfig& config) const {
    if (generic_) {
      if (key == generic_apply_penalties_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_apply_penalties(key.text + ": " + s.message());
    if (!(key == apply_penalties_key(config, key.target)))
      return refuse_apply_penalties(key.text + ": signature and config name different types");
    if (!runs_on("x86-64-v3", key.target)) return refuse_apply_penalties(key.text + ": needs x86-64-v3 or better");
    if (config.x == DType::kF32 || config.x == DType::kF16 || config.x == DType::kBf16) return {};
    return refuse_apply_penalties(fmt::format("{}: x, allowed: f32, f16, bf16", key.text));
  }
  double predict_apply_penalties(const ApplyPenaltiesProblem& p, const DeviceSpec& device) const {
    const double elements = static_cast<double>(p.rows) * static_cast<double>(p.n);
    return kApplyPenaltiesLaunchSeconds +
           elements * (generic_ ? kGenericApplyPenaltiesElementSeconds : kApplyPenaltiesElementSeconds) / device.units;
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& apply_penalties_cpu_family() {
  static const ApplyPenaltiesCpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& apply_penalties_generic_family() {
  static const ApplyPenaltiesCpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
