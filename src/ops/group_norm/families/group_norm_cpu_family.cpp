// SPDX-License-Identifier: MIT
// group_norm_cpu, an instance for each type and layout, and group_norm_generic, which is told at run time and always built: every valid
// problem runs. Bits do not depend on the number of threads.
#include <fmt/format.h>

#include <algorithm>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/group_norm/families/group_norm_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kGroupNormGbpsUnit = 8.0, kGroupNormLaunchSeconds = 8e-6;
constexpr std::string_view kGenericGroupNormTarget = "x86-64";

GroupNormConfig group_norm_cpu_config(const GroupNormProblem& p) { return {p.dtype, p.channels_last != 0, false}; }

class GroupNormCpuFamily final : public KernelFamily {
 public:
  GroupNormCpuFamily(bool generic, bool backward)
      : generic_(generic),
        op_(backward ? "group_norm_backward" : "group_norm"),
        name_(fmt::format("{}_{}", op_, generic ? "generic" : "cpu")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86)
      return refuse_group_norm_cpu(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_group_norm_cpu(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupNormProblem>(ref);
    if (generic_) return {{{generic_key(), {}}, predict_cpu(p, device)}};
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target, takes_bf16_level(p.dtype)))
        return {{{key_of(group_norm_cpu_config(p), arch->target), {}}, predict_cpu(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    GroupNormConfig config{};
    if (Status s = parse_cpu_config(step.key, config); !s || generic_) return s;
    const GroupNormConfig need = group_norm_cpu_config(problem_cast<GroupNormProblem>(ref));
    if (config == need) return {};
    return refuse_group_norm_cpu(
        fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_cpu(problem_cast<GroupNormProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep&) const override {
    const auto& p = problem_cast<GroupNormProblem>(ref);
    return group_norm_workspace(p, cpu_chunks(p));
  }
  std::string numerics_id(const RecipeStep& step) const override {
    return step.key.target == kGenericGroupNormTarget ? "chunks" : "chunks:fma";
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GroupNormConfig config{};
    if (Status s = parse_cpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name =
        generic_ ? name_
                 : fmt::format("{}-{}-{}", name_, dtype_name(config.dtype), config.channels_last ? "last" : "first");
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = cpu_instance_source(
        fmt::format("{0}/{0}_cpu.hpp", op_), request.entry,
        fmt::format("{}_cpu<tilewright::{}{}>", op_, GroupNormConfig::kTypeName, cpp_initializer(config)),
        "GroupNormArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kGenericGroupNormTarget) keys.push_back(generic_key());
    if (generic_) return keys;
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      if (!is_vector_level(target, takes_bf16_level(dtype))) continue;
      for (const bool last : {false, true}) keys.push_back(key_of({dtype, last, false}, target));
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GroupNormProblem>(ref);
    const GroupNormChunks chunks = cpu_chunks(p);
    const int64_t width = slab_channels(p, chunks, device);
    const int64_t lines = p.channels_last != 0 ? (p.channels + width - 1) / width : p.channels;
    std::vector<Stage> stages;
    const std::vector<GroupNormStep> steps =
        takes_groups_whole(p, device) ? std::vector{GroupNormStep::kWhole} : group_norm_steps(p);
    const double seconds = predict_cpu(p, device) / static_cast<double>(steps.size());
    for (const GroupNormStep each : steps) {
      Stage& stage = stages.emplace_back(group_norm_stage(p, chunks, kernel));
      set_group_norm_step(stage, each, 0, width);
      share_work(stage.shape, seconds, group_norm_items(p, each, p.images * chunks.count * lines), device);
    }
    return stages;
  }

 private:
  // The gradient, as those of other norms, is no faster there and slower with channels last.
  bool takes_bf16_level(DType dtype) const { return dtype == DType::kBf16 && op_ == "group_norm"; }
  // Two groups stay in a core's second level of cache, and there are enough for all threads.
  static bool takes_groups_whole(const GroupNormProblem& p, const DeviceSpec& device) {
    constexpr int64_t kGroupsThread = 4;
    const int64_t groups = p.images * p.groups;
    if (p.backward != 0 || p.channels_last != 0 || groups < kGroupsThread * device.units) return false;
    return p.elements() / groups * dtype_bits(p.dtype) / 8 <= device.l2_bytes / 3;
  }
  // Whole positions, or, where chunks are few beside the threads, parts of them.
  static int64_t slab_channels(const GroupNormProblem& p, const GroupNormChunks& chunks, const DeviceSpec& device) {
    constexpr int64_t kSlabsThread = 2;
    const int64_t all = std::max<int64_t>(p.images * chunks.count, 1);
    const int64_t wanted = std::max((kSlabsThread * device.units + all - 1) / all,
                                    (p.channels + kGroupNormCpuChannels - 1) / kGroupNormCpuChannels);
    const int64_t width = (p.channels + wanted - 1) / wanted;
    return std::max<int64_t>((width + kGroupNormCpuLine - 1) / kGroupNormCpuLine, 1) * kGroupNormCpuLine;
  }
  static GroupNormChunks cpu_chunks(const GroupNormProblem& p) {
    return group_norm_chunks(p, p.channels_last != 0 ? kGroupNormCpuSpanLast : kGroupNormCpuSpan, 1);
  }
  Status refuse_group_norm_cpu(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey generic_key() const { return make_key(op(), name(), kGenericGroupNormTarget, "any", "run_time=1"); }
  KernelKey key_of(const GroupNormConfig& config, std::string_view target) const {
    return make_key(op(), name(), target, group_norm_signature(config), print_fields(config));
  }
  Status parse_cpu_config(const KernelKey& key, GroupNormConfig& config) const {
    if (generic_) {
      config = {};
      if (key == generic_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_group_norm_cpu(key.text + ": " + s.message());
    if (!(key == key_of(config, key.target)))
      return refuse_group_norm_cpu(key.text + ": signature and config name different types");
    if (!runs_on("x86-64-v3", key.target)) return refuse_group_norm_cpu(key.text + ": needs x86-64-v3 or better");
    if (is_group_norm_config(config) && !config.whole) return {};
    return refuse_group_norm_cpu(fmt::format("{}: allowed: f32, f16, bf16, whole=0", key.text));
  }
  double predict_cpu(const GroupNormProblem& p, const DeviceSpec& device) const {
    return kGroupNormLaunchSeconds +
           1.5 * group_norm_bytes(p) / (kGroupNormGbpsUnit * 1e9 * device.units) * (generic_ ? 4 : 1);
  }

  const bool generic_;
  const std::string op_, name_;
};

}  // namespace

const KernelFamily& group_norm_cpu_family(bool generic, bool backward) {
  static const GroupNormCpuFamily kFamilies[2][2] = {{{false, false}, {false, true}}, {{true, false}, {true, true}}};
  return kFamilies[generic][backward];
}

}  // namespace tilewright
