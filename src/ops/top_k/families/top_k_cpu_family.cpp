// SPDX-License-Identifier: MIT
// top_k_cpu, an instance for each type of logits, and top_k_generic, which is typed at run time and always built: every
// valid problem runs.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/top_k/families/top_k_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kTopKElementSeconds = 0.4e-9, kGenericTopKElementSeconds = 3e-9, kTopKLaunchSeconds = 3e-6;
constexpr std::string_view kGenericTopKTarget = "x86-64";

class TopKCpuFamily final : public KernelFamily {
 public:
  explicit TopKCpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "top_k_generic" : "top_k_cpu"; }
  std::string_view op() const override { return "top_k"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return refuse_top_k(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_top_k(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<TopKProblem>(ref);
    if (generic_) return {{{generic_top_k_key(), {}}, predict_top_k(p, device)}};
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target)) return {{{top_k_key({p.x}, arch->target), {}}, predict_top_k(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    TopKConfig config{};
    if (Status s = parse_top_k_config(step.key, config); !s || generic_) return s;
    const DType x = problem_cast<TopKProblem>(ref).x;
    if (config.x == x) return {};
    return refuse_top_k(fmt::format("kernel takes {}, the problem is {}", dtype_name(config.x), dtype_name(x)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_top_k(problem_cast<TopKProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep& step) const override {
    return step.key.target == kGenericTopKTarget ? "lanes16x4" : "lanes16x4:fma";
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    TopKConfig config{};
    if (Status s = parse_top_k_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), dtype_name(config.x));
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source = cpu_instance_source(
        "top_k/top_k_cpu.hpp", request.entry,
        fmt::format("top_k_cpu<tilewright::{}{}>", TopKConfig::kTypeName, cpp_initializer(config)), "TopKArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kGenericTopKTarget) keys.push_back(generic_top_k_key());
    if (generic_ || !is_vector_level(target)) return keys;
    for (const DType x : {DType::kF32, DType::kF16, DType::kBf16}) keys.push_back(top_k_key({x}, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<TopKProblem>(ref);
    Stage stage = top_k_stage(p, {}, std::move(kernel));
    share_work(stage.shape, predict_top_k(p, device), p.rows, device);
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  Status refuse_top_k(const std::string& message) const { return unsupported(fmt::format("{}: {}", name(), message)); }
  KernelKey generic_top_k_key() const { return make_key(op(), name(), kGenericTopKTarget, "any", "run_time=1"); }
  KernelKey top_k_key(const TopKConfig& config, std::string_view target) const {
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_top_k_config(const KernelKey& key, TopKConfig& config) const {
    if (generic_) {
      if (key == generic_top_k_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_top_k(key.text + ": " + s.message());
    if (!(key == top_k_key(config, key.target)))
      return refuse_top_k(key.text + ": signature and config name different types");
    if (!runs_on("x86-64-v3", key.target)) return refuse_top_k(key.text + ": needs x86-64-v3 or better");
    if (config.x == DType::kF32 || config.x == DType::kF16 || config.x == DType::kBf16) return {};
    return refuse_top_k(fmt::format("{}: x, allowed: f32, f16, bf16", key.text));
  }
  double predict_top_k(const TopKProblem& p, const DeviceSpec& device) const {
    const double elements = static_cast<double>(p.rows) * static_cast<double>(p.n);
    return kTopKLaunchSeconds + elements * (generic_ ? kGenericTopKElementSeconds : kTopKElementSeconds) / device.units;
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& top_k_cpu_family() {
  static const TopKCpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& top_k_generic_family() {
  static const TopKCpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
