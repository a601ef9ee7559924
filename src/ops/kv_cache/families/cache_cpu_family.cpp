// SPDX-License-Identifier: MIT
// <op>_cpu, an instance for each set of types, and <op>_generic, which is typed at run time and always built: every valid problem
// runs.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/kv_cache/families/cache_families.hpp"
#include "tile/common/cached_output.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kCacheGbpsUnit = 8.0;
constexpr double kCacheLaunchSeconds = 3e-6;
constexpr double kCacheGenericElementSeconds = 3e-9;
constexpr std::string_view kCacheGenericTarget = "x86-64";

bool cache_writes_bf16(const CacheCpuConfig& config) {
  return config.q == DType::kBf16 || config.cache == DType::kBf16;
}
CacheCpuConfig cache_cpu_config(const CacheProblem& p) { return {p.x, p.q, p.cache}; }

class CacheCpuFamily final : public KernelFamily {
 public:
  CacheCpuFamily(const CacheOp& op, bool generic)
      : op_(op), generic_(generic), name_(fmt::format("{}_{}", op.name, generic ? "generic" : "cpu")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_.name; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return refuse_cpu(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_cpu(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<CacheProblem>(ref);
    if (generic_) return {{{generic_key(), {}}, predict_cpu(p, device)}};
    const CacheCpuConfig config = cache_cpu_config(p);
    for (const ArchSpec* arch : device.targets) {
      if (!is_vector_level(arch->target, cache_writes_bf16(config))) continue;
      return {{{key_of(config, arch->target), {}}, predict_cpu(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    CacheCpuConfig config;
    if (Status s = parse_cpu_config(step.key, config); !s || generic_) return s;
    const CacheCpuConfig need = cache_cpu_config(problem_cast<CacheProblem>(ref));
    if (config == need) return {};
    return refuse_cpu(fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_cpu(problem_cast<CacheProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep& step) const override {
    return step.key.target == kCacheGenericTarget ? "lanes16" : "lanes16:fma";
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    CacheCpuConfig config{};
    if (Status s = parse_cpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? name_ : fmt::format("{}-{}-{}", name_, dtype_name(config.x), dtype_name(config.cache));
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = cpu_instance_source(
        "kv_cache/kv_cache_write_cpu.hpp", request.entry,
        fmt::format("kv_cache_write_cpu<tilewright::{}{}>", CacheCpuConfig::kTypeName, cpp_initializer(config)),
        "CacheArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kCacheGenericTarget) keys.push_back(generic_key());
    if (generic_) return keys;
    for (const CacheProblem& p : usual_cache_problems(op_)) {
      const CacheCpuConfig config = cache_cpu_config(p);
      if (!is_vector_level(target, cache_writes_bf16(config))) continue;
      const KernelKey key = key_of(config, target);
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<CacheProblem>(ref);
    std::vector<Stage> stages;
    stages.push_back(cache_stage(p, 1, 0, std::move(kernel), cache_bytes_written(p) > kCachedOutputBytes));
    share_work(stages.back().shape, predict_cpu(p, device), p.tokens, device);
    return stages;
  }

 private:
  Status refuse_cpu(const std::string& message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  KernelKey generic_key() const { return make_key(op_.name, name_, kCacheGenericTarget, "any", "run_time=1"); }
  KernelKey key_of(const CacheCpuConfig& config, std::string_view target) const {
    return make_key(op_.name, name_, target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_cpu_config(const KernelKey& key, CacheCpuConfig& config) const {
    if (generic_) {
      config = {DType::kNone, DType::kNone, DType::kNone};
      if (key == generic_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_cpu(key.text + ": " + s.message());
    if (!(key == key_of(config, key.target))) {
      return refuse_cpu(key.text + ": signature and config name different types");
    }
    if (!runs_on("x86-64-v3", key.target)) return refuse_cpu(key.text + ": needs x86-64-v3 or better");
    const Status s = check_cache_types(op_, config.x, config.q, config.cache);
    return s ? s : refuse_cpu(key.text + ": " + s.message());
  }
  double predict_cpu(const CacheProblem& p, const DeviceSpec& device) const {
    const double bytes = cache_bytes_moved(p), elements = bytes / 4;
    return kCacheLaunchSeconds + bytes / (kCacheGbpsUnit * 1e9 * device.units) +
           (generic_ ? elements * kCacheGenericElementSeconds / device.units : 0);
  }

  const CacheOp& op_;
  const bool generic_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<KernelFamily> make_cache_cpu_family(const CacheOp& op) {
  return std::make_unique<CacheCpuFamily>(op, false);
}
std::unique_ptr<KernelFamily> make_cache_generic_family(const CacheOp& op) {
  return std::make_unique<CacheCpuFamily>(op, true);
}

}  // namespace tilewright
