// SPDX-License-Identifier: MIT
// transpose_cpu, an instance for each size of elements, and transpose_generic, which is told at run time and always built: every
// valid problem runs.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/transpose/families/transpose_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kTransposeGbpsUnit = 8.0, kTransposeLaunchSeconds = 3e-6;
constexpr std::string_view kGenericTransposeTarget = "x86-64";

constexpr int64_t kLeastTransposeRows = 16;  // of the longer side, that are worth a core
TransposeConfig transpose_config(const TransposeProblem& p) { return {dtype_bits(p.dtype) / 8}; }

class TransposeCpuFamily final : public KernelFamily {
 public:
  explicit TransposeCpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "transpose_generic" : "transpose_cpu"; }
  std::string_view op() const override { return "transpose"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86)
      return refuse_transpose(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_transpose(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<TransposeProblem>(ref);
    if (generic_) return {{{generic_transpose_key(), {}}, predict_transpose(p, device)}};
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target))
        return {{{transpose_key(transpose_config(p), arch->target), {}}, predict_transpose(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    TransposeConfig config{};
    if (Status s = parse_transpose_config(step.key, config); !s || generic_) return s;
    const TransposeConfig need = transpose_config(problem_cast<TransposeProblem>(ref));
    if (config == need) return {};
    return refuse_transpose(
        fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_transpose(problem_cast<TransposeProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "elements"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    TransposeConfig config{};
    if (Status s = parse_transpose_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), config.bytes);
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source = cpu_instance_source(
        "transpose/transpose_cpu.hpp", request.entry,
        fmt::format("transpose_cpu<tilewright::{}{}>", TransposeConfig::kTypeName, cpp_initializer(config)),
        "TransposeArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kGenericTransposeTarget) keys.push_back(generic_transpose_key());
    if (generic_ || !is_vector_level(target)) return keys;
    for (const int bytes : {1, 2, 4}) keys.push_back(transpose_key({bytes}, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<TransposeProblem>(ref);
    Stage stage = transpose_stage(p, 0, std::move(kernel));
    const int64_t rows = p.batches() * std::max(p.m, p.n);
    share_work(stage.shape, predict_transpose(p, device), rows / kLeastTransposeRows, device);
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  Status refuse_transpose(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey generic_transpose_key() const {
    return make_key(op(), name(), kGenericTransposeTarget, "any", "run_time=1");
  }
  KernelKey transpose_key(const TransposeConfig& config, std::string_view target) const {
    return make_key(op(), name(), target, fmt::format("bytes={}", config.bytes), print_fields(config));
  }
  Status parse_transpose_config(const KernelKey& key, TransposeConfig& config) const {
    if (generic_) {
      if (key == generic_transpose_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_transpose(key.text + ": " + s.message());
    if (!(key == transpose_key(config, key.target)))
      return refuse_transpose(key.text + ": signature and config name different elements");
    if (!runs_on("x86-64-v3", key.target)) return refuse_transpose(key.text + ": needs x86-64-v3 or better");
    if (config.bytes == 1 || config.bytes == 2 || config.bytes == 4) return {};
    return refuse_transpose(fmt::format("{}: bytes, allowed: 1, 2, 4", key.text));
  }
  double predict_transpose(const TransposeProblem& p, const DeviceSpec& device) const {
    return kTransposeLaunchSeconds +
           transpose_bytes(p) / (kTransposeGbpsUnit * 1e9 * device.units) * (generic_ ? 2 : 1);
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& transpose_cpu_family() {
  static const TransposeCpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& transpose_generic_family() {
  static const TransposeCpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
