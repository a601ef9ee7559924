// SPDX-License-Identifier: MIT
// <op>_cpu, an instance for each pair of types, and <op>_generic, which is typed at run time and always built: every valid problem runs.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "kv_cache/cache_move_args.hpp"
#include "ops/kv_cache_move/families/move_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kMoveGbpsUnit = 8.0;
constexpr double kMoveLaunchSeconds = 3e-6;
constexpr std::string_view kMoveGenericTarget = "x86-64";

// Elements that move as they are have one instance, whatever they are.
CacheMoveCpuConfig move_cpu_config(const CacheMoveProblem& p) {
  if (p.in == p.out) return {DType::kNone, DType::kNone};
  return {p.in, p.out};
}

class CacheMoveCpuFamily final : public KernelFamily {
 public:
  CacheMoveCpuFamily(const CacheMoveOp& op, bool generic)
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
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    if (generic_) return {{{generic_key(), {}}, predict_cpu(p, device)}};
    const CacheMoveCpuConfig config = move_cpu_config(p);
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target, config.out == DType::kBf16))
        return {{{key_of(config, arch->target), {}}, predict_cpu(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    CacheMoveCpuConfig config{};
    if (Status s = parse_cpu_config(step.key, config); !s || generic_) return s;
    const CacheMoveCpuConfig need = move_cpu_config(problem_cast<CacheMoveProblem>(ref));
    if (config == need) return {};
    return refuse_cpu(fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_cpu(problem_cast<CacheMoveProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "elements"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    CacheMoveCpuConfig config{};
    if (Status s = parse_cpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? name_ : fmt::format("{}-{}-{}", name_, dtype_name(config.x), dtype_name(config.out));
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = cpu_instance_source(
        "kv_cache/cache_move_cpu.hpp", request.entry,
        fmt::format("cache_move_cpu<tilewright::{}{}>", CacheMoveCpuConfig::kTypeName, cpp_initializer(config)),
        "CacheMoveArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kMoveGenericTarget) keys.push_back(generic_key());
    if (generic_) return keys;
    const CacheMoveCpuConfig as_they_are{DType::kNone, DType::kNone}, codes{DType::kF8E4M3, DType::kBf16};
    if (is_vector_level(target)) keys.push_back(key_of(as_they_are, target));
    if (!op_.pairs && is_vector_level(target, codes.out == DType::kBf16)) keys.push_back(key_of(codes, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    std::vector<Stage> stages;
    stages.push_back(move_stage(op_, p, 0, std::move(kernel)));
    const int64_t rows = p.items * std::max<int64_t>(p.heads, 1) * (op_.pairs ? std::max<int64_t>(p.block_size, 1) : 1);
    share_work(stages.back().shape, predict_cpu(p, device), rows, device);
    return stages;
  }

 private:
  Status refuse_cpu(const std::string& message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  KernelKey generic_key() const { return make_key(op_.name, name_, kMoveGenericTarget, "any", "run_time=1"); }
  KernelKey key_of(const CacheMoveCpuConfig& config, std::string_view target) const {
    return make_key(op_.name, name_, target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_cpu_config(const KernelKey& key, CacheMoveCpuConfig& config) const {
    if (generic_) {
      config = {DType::kNone, DType::kNone};
      if (key == generic_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_cpu(key.text + ": " + s.message());
    if (!(key == key_of(config, key.target))) {
      return refuse_cpu(key.text + ": signature and config name different types");
    }
    if (!runs_on("x86-64-v3", key.target)) return refuse_cpu(key.text + ": needs x86-64-v3 or better");
    if (config.x == DType::kNone && config.out == DType::kNone) return {};
    const Status s =
        config.x == config.out ? unsupported("types are the same") : check_move_types(op_, config.x, config.out);
    return s ? s : refuse_cpu(key.text + ": " + s.message());
  }
  // The generic one widens as slowly as it copies fast.
  double predict_cpu(const CacheMoveProblem& p, const DeviceSpec& device) const {
    const double bytes = move_bytes(op_, p);
    return kMoveLaunchSeconds + bytes / (kMoveGbpsUnit * 1e9 * device.units) * (generic_ ? 2 : 1);
  }

  const CacheMoveOp& op_;
  const bool generic_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<KernelFamily> make_move_cpu_family(const CacheMoveOp& op) {
  return std::make_unique<CacheMoveCpuFamily>(op, false);
}
std::unique_ptr<KernelFamily> make_move_generic_family(const CacheMoveOp& op) {
  return std::make_unique<CacheMoveCpuFamily>(op, true);
}

}  // namespace tilewright
