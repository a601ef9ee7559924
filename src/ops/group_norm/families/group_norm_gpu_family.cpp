// SPDX-License-Identifier: MIT
// group_norm_gpu, an instance for each type and layout, with and without a rest of pieces, and group_norm_generic_gpu, which is told at run
// time: every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/group_norm/families/group_norm_slots.hpp"

namespace tilewright {
namespace {

constexpr double kGroupNormGpuLaunchSeconds = 8e-6, kGroupNormGpuGradientLaunchSeconds = 17e-6;
// NVIDIA: blocks that an SM's registers have room for. AMD: waves of a SIMD. Channels last, a thread has factors of eight channels; of four
// blocks' registers f16 and f32 spill.
int group_norm_blocks(const GroupNormConfig& c, bool backward, ArchVendor vendor) {
  if (c.cluster > 0) return group_slot_threads(backward, c.channels_last) / c.threads;
  if (vendor != ArchVendor::kNvidia || c.dtype == DType::kNone || c.channels_last) return 2;
  return c.dtype == DType::kBf16 ? 4 : 3;
}

bool has_whole_pieces(const GroupNormProblem& p) {
  const int64_t length = p.channels_last != 0 ? p.channels : p.positions;
  if (p.unaligned != 0 || length % kRowPiece != 0) return false;
  const auto whole = [](const GroupNormStrides& s) { return s.image % kRowPiece == 0 && s.line % kRowPiece == 0; };
  return whole(p.x) && whole(p.out) && whole(p.dy);
}
GroupNormConfig group_norm_gpu_config(const GroupNormProblem& p) {
  return {p.dtype, p.channels_last != 0, has_whole_pieces(p)};
}
GroupNormChunks gpu_chunks(const GroupNormProblem& p) {
  if (p.channels_last != 0) return group_norm_chunks(p, kGroupNormGpuSpanLast, kGroupNormDown);
  return group_norm_chunks(p, kGroupNormGpuSpan, int64_t{kRowLanes} * kRowPiece);
}
// Blocks that a step keeps busy.
int64_t group_norm_grid(const GroupNormProblem& p, const GroupNormChunks& chunks, GroupNormStep step) {
  constexpr int64_t kMost = most_walking_blocks(kGroupNormThreads);
  constexpr int64_t kLines = kGroupNormThreads / kRowLanes;
  const int64_t parts = p.images * chunks.count;
  const int64_t tiles = p.channels_last != 0 ? parts * ((p.channels + kGroupNormSlab - 1) / kGroupNormSlab)
                                             : (parts * p.channels + kLines - 1) / kLines;
  const int64_t items = group_norm_items(p, step, tiles);
  return std::clamp<int64_t>(step == GroupNormStep::kColumns ? (items + kLines - 1) / kLines : items, 1, kMost);
}

class GroupNormGpuFamily final : public KernelFamily {
 public:
  GroupNormGpuFamily(bool generic, bool backward)
      : generic_(generic),
        op_(backward ? "group_norm_backward" : "group_norm"),
        name_(fmt::format("{}_{}gpu", op_, generic ? "generic_" : "")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return {};
    return refuse_group_norm_gpu(fmt::format("{} is no GPU", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupNormProblem>(ref);
    std::vector<Candidate> all;
    const auto add = [&](const GroupNormConfig& config) {
      const RecipeStep step{key_of(config, device.arch->target), {}};
      all.push_back({step, cost(ref, device, step)});
    };
    GroupNormConfig slots = group_norm_gpu_config(p);
    for (const auto& [cluster, threads] : group_slot_shapes()) {
      slots.cluster = cluster, slots.threads = threads;
      if (!generic_ && check_slots(slots, device.arch->target) && plan_group_slots(p, slots, device)) add(slots);
    }
    add(group_norm_gpu_config(p));
    return all;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    GroupNormConfig config{};
    if (Status s = parse_gpu_config(step.key, config); !s || generic_) return s;
    const auto& p = problem_cast<GroupNormProblem>(ref);
    GroupNormConfig need = group_norm_gpu_config(p);
    if (!config.whole) need.whole = false;
    if (config.cluster > 0 && plan_group_slots(p, config, device)) {
      need.cluster = config.cluster, need.threads = config.threads;
    }
    if (config == need) return {};
    return refuse_group_norm_gpu(
        fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GroupNormConfig config{};
    if (!parse_gpu_config(step.key, config)) config = {};
    return predict_gpu(problem_cast<GroupNormProblem>(ref), device, config);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep& step) const override {
    GroupNormConfig config{};
    const auto& p = problem_cast<GroupNormProblem>(ref);
    if (parse_gpu_config(step.key, config) && config.cluster > 0) {
      return p.has_column_gradients() ? group_norm_floats(p.images, 1, p.channels, 0) * int64_t{sizeof(float)} : 0;
    }
    const int64_t begin = channel_floats_begin(p.images, gpu_chunks(p).count, p.channels);
    return (begin + p.images * p.channels * kGroupNormChannelFloats) * static_cast<int64_t>(sizeof(float));
  }
  std::string numerics_id(const RecipeStep& step) const override {
    GroupNormConfig config{};
    if (!parse_gpu_config(step.key, config) || config.cluster == 0) return "chunks";
    return fmt::format("slots:{}x{}", config.cluster, config.threads);
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GroupNormConfig c{};
    if (Status s = parse_gpu_config(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name =
        generic_ ? name_
                 : fmt::format("{}-{}-{}{}{}", name_, dtype_name(c.dtype), c.channels_last ? "last" : "first",
                               c.whole ? "" : "-any", c.cluster > 0 ? fmt::format("-{}x{}", c.cluster, c.threads) : "");
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = gpu_instance_source(
        find_arch(key.target)->vendor, fmt::format("{0}/{0}_gpu.cuh", op_), request.entry,
        fmt::format("{}_gpu<tilewright::{}{}>", op_, GroupNormConfig::kTypeName, cpp_initializer(c)), "GroupNormArgs",
        std::max(c.threads, kGroupNormThreads),
        group_norm_blocks(c, op_ != "group_norm", find_arch(key.target)->vendor));
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    GroupNormConfig config{};
    if (parse_gpu_config(key, config) && config.cluster > 0) return find_arch(key.target)->shared_bytes;
    return kGroupNormSharedBytes;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || arch->vendor == ArchVendor::kX86) return keys;
    if (generic_) return {key_of({}, target)};
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      for (const bool last : {false, true}) keys.push_back(key_of({dtype, last, true}, target));
      for (const auto& [cluster, threads] : group_slot_shapes()) {
        for (const bool last : {false, true}) {
          const GroupNormConfig c{dtype, last, true, cluster, threads};
          if (check_slots(c, target)) keys.push_back(key_of(c, target));
        }
      }
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GroupNormProblem>(ref);
    const GroupNormChunks chunks = gpu_chunks(p);
    GroupNormConfig config{};
    if (Status s = parse_gpu_config(step.key, config); !s) return s;
    std::vector<Stage> stages;
    const GroupNormChunks whole{p.positions, 1};  // of images, in slots
    std::vector<GroupNormStep> steps = group_norm_steps(p);
    if (config.cluster > 0) {
      set_group_slots(stages.emplace_back(group_norm_stage(p, whole, kernel)), p, config,
                      *plan_group_slots(p, config, device));
      std::erase_if(steps, [](GroupNormStep each) { return each != GroupNormStep::kColumns; });
    }
    for (const GroupNormStep each : steps) {
      const int64_t grid = group_norm_grid(p, chunks, each);
      Stage& stage = stages.emplace_back(group_norm_stage(p, config.cluster > 0 ? whole : chunks, kernel));
      set_group_norm_step(stage, each, grid);
      stage.shape.stage_edge = stages.size() > 1;
      stage.shape.grid = {static_cast<uint32_t>(grid), 1, 1};
      stage.shape.threads = kGroupNormThreads;
      stage.shape.shared_bytes = kGroupNormSharedBytes;
    }
    return stages;
  }

 private:
  Status refuse_group_norm_gpu(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey key_of(const GroupNormConfig& config, std::string_view target) const {
    if (generic_) return make_key(op(), name(), target, "any", "run_time=1");
    return make_key(op(), name(), target, group_norm_signature(config), print_fields(config));
  }
  Status parse_gpu_config(const KernelKey& key, GroupNormConfig& c) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    if (generic_) {
      c = {};
      if (gpu && key == key_of({}, key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse_group_norm_gpu(key.text + ": " + s.message());
    if (!gpu) return refuse_group_norm_gpu(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(c, key.target)))
      return refuse_group_norm_gpu(key.text + ": signature and config name different types");
    if (is_group_norm_config(c)) {
      const Status s = check_slots(c, key.target);
      return s ? s : refuse_group_norm_gpu(key.text + ": " + s.message());
    }
    return refuse_group_norm_gpu(key.text + ": allowed: f32, f16, bf16");
  }
  // Ok, of steps too, or why no cluster keeps groups.
  Status check_slots(const GroupNormConfig& c, std::string_view target) const {
    if (c.cluster == 0 && c.threads == 0) return {};
    if (target != "sm_90a") return unsupported("groups of a cluster are kept on sm_90a");
    if (!c.whole) return unsupported("groups of a cluster are of whole pieces");
    const std::pair shape(c.cluster, c.threads);
    if (std::ranges::find(group_slot_shapes(), shape) != group_slot_shapes().end()) return {};
    std::string allowed = "0:0";
    for (const auto& [cluster, threads] : group_slot_shapes()) allowed += fmt::format(", {}:{}", cluster, threads);
    return unsupported(fmt::format("cluster={}:threads={}, allowed: {}", c.cluster, c.threads, allowed));
  }
  double predict_gpu(const GroupNormProblem& p, const DeviceSpec& device, const GroupNormConfig& c) const {
    const auto plan = c.cluster > 0 ? plan_group_slots(p, c, device) : std::nullopt;
    if (plan) return predict_group_slots(p, c, *plan, device);
    // Steps: x again for each, partly from a cache.
    const bool backward = p.backward != 0, last = p.channels_last != 0;
    // Of gradients instructions count, too, as many for an element of any type.
    const double gradient_passes = last ? 4.2 : p.dtype == DType::kF32 ? 1.9 : 2.4;
    const double passes = backward ? gradient_passes : last ? 2.6 : 1.7;
    const double launches = backward ? kGroupNormGpuGradientLaunchSeconds : kGroupNormGpuLaunchSeconds;
    const double bytes_seconds = group_norm_bytes(p) / memory_bytes_per_second(device);
    return (launches + passes * bytes_seconds) * (generic_ ? 4 : 1);
  }

  const bool generic_;
  const std::string op_, name_;
};

}  // namespace

const KernelFamily& group_norm_gpu_family(bool generic, bool backward) {
  static const GroupNormGpuFamily kFamilies[2][2] = {{{false, false}, {false, true}}, {{true, false}, {true, true}}};
  return kFamilies[generic][backward];
}

}  // namespace tilewright
