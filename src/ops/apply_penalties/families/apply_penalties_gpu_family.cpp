// SPDX-License-Identifier: MIT
// apply_penalties_gpu, an instance for each type, and apply_penalties_generic_gpu, which is typed at run time: every valid problem runs. One source for
// NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "ops/apply_penalties/families/apply_penalties_families.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"

namespace tilewright {
namespace {

constexpr double kApplyPenaltiesGpuLaunchSeconds = 3e-6;
constexpr int kApplyPenaltiesBlocks = 4;  // registers for so many on an SM; on AMD GPUs, waves of a SIMD

class ApplyPenaltiesGpuFamily final : public KernelFamily {
 public:
  explicit ApplyPenaltiesGpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "apply_penalties_generic_gpu" : "apply_penalties_gpu"; }
  std::string_view op() const override { return "apply_penalties"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return {};
    return refuse_gpu_apply_penalties(fmt::format("{} is no GPU", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<ApplyPenaltiesProblem>(ref);
    return {{{key_of(p.x, device.arch->target), {}}, predict_gpu_apply_penalties(p, device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    ApplyPenaltiesConfig c{};
    if (Status s = parse_gpu_apply_penalties(step.key, c); !s || generic_) return s;
    if (c.x == problem_cast<ApplyPenaltiesProblem>(ref).x) return {};
    return refuse_gpu_apply_penalties(fmt::format("{}: the problem has another x", step.key.text));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_gpu_apply_penalties(problem_cast<ApplyPenaltiesProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "elements"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    ApplyPenaltiesConfig c{};
    if (Status s = parse_gpu_apply_penalties(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), dtype_name(c.x));
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source = gpu_instance_source(
        find_arch(key.target)->vendor, "apply_penalties/apply_penalties_gpu.cuh", request.entry,
        fmt::format("apply_penalties_gpu<tilewright::{}{}>", ApplyPenaltiesConfig::kTypeName, cpp_initializer(c)),
        "ApplyPenaltiesArgs", kPenaltyThreads, kApplyPenaltiesBlocks);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey&) const override { return kPenaltySharedBytes; }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || arch->vendor == ArchVendor::kX86) return keys;
    if (generic_) return {key_of(DType::kNone, target)};
    for (const DType x : {DType::kF32, DType::kF16, DType::kBf16}) keys.push_back(key_of(x, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<ApplyPenaltiesProblem>(ref);
    const int64_t grid = std::clamp<int64_t>(p.rows * penalty_chunks(p), 1, most_walking_blocks(kPenaltyThreads));
    Stage stage = apply_penalties_stage(p, grid, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stage.shape.threads = kPenaltyThreads;
    stage.shape.shared_bytes = kPenaltySharedBytes;
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  Status refuse_gpu_apply_penalties(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey key_of(DType x, std::string_view target) const {
    if (generic_) return make_key(op(), name(), target, "any", "run_time=1");
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(x)), print_fields(ApplyPenaltiesConfig{x}));
  }
  Status parse_gpu_apply_penalties(const KernelKey& key, ApplyPenaltiesConfig& c) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    if (generic_) {
      c = {DType::kNone};
      if (gpu && key == key_of(DType::kNone, key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse_gpu_apply_penalties(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu_apply_penalties(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(c.x, key.target)))
      return refuse_gpu_apply_penalties(key.text + ": signature and config name different types");
    const bool legal = c.x == DType::kF32 || c.x == DType::kF16 || c.x == DType::kBf16;
    return legal ? Status() : refuse_gpu_apply_penalties(key.text + ": no legal config");
  }
  double predict_gpu_apply_penalties(const ApplyPenaltiesProblem& p, const DeviceSpec& device) const {
    return (kApplyPenaltiesGpuLaunchSeconds + apply_penalties_bytes(p) / memory_bytes_per_second(device)) *
           (generic_ ? 2 : 1);
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& apply_penalties_gpu_family() {
  static const ApplyPenaltiesGpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& apply_penalties_generic_gpu_family() {
  static const ApplyPenaltiesGpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
