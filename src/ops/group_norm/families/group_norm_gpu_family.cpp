// SPDX-License-Identifier: MIT
// group_norm_gpu, an instance for each type and layout, with and without a rest of pieces, and group_norm_generic_gpu, which is told at run
// time: every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/group_norm/families/group_norm_families.hpp"

namespace tilewright {
namespace {

constexpr double kGroupNormGpuLaunchSeconds = 8e-6, kGroupNormTogetherLaunchSeconds = 4e-6;
// NVIDIA: blocks that an SM's registers have room for. AMD: waves of a SIMD. Channels last, a thread has factors of eight channels; of four
// blocks' registers f16 and f32 spill.
constexpr int group_norm_blocks(const GroupNormConfig& c, ArchVendor vendor) {
  if (vendor != ArchVendor::kNvidia || c.dtype == DType::kNone || c.channels_last) return 2;
  return c.dtype == DType::kBf16 && c.cluster == 0 ? 4 : 3;
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
// Ok, or why no cluster keeps a group.
Status check_together(const GroupNormConfig& c, std::string_view target, bool backward) {
  if (backward || target != "sm_90a") return unsupported("groups of a cluster are group_norm's on sm_90a");
  if (!c.whole || c.channels_last) return unsupported("groups of a cluster are of whole pieces, channels first");
  if (!std::has_single_bit(static_cast<unsigned>(c.cluster)) || c.cluster > kGroupTogetherBlocks) {
    return unsupported(fmt::format("cluster={}, allowed: 1, 2, 4, 8", c.cluster));
  }
  const int most = group_together_pieces(c.dtype);
  if (c.pieces >= 1 && c.pieces <= most) return {};
  return unsupported(fmt::format("pieces={}, allowed: 1 to {}", c.pieces, most));
}
int64_t group_pieces(const GroupNormProblem& p) { return p.channels / p.groups * (p.positions / kRowPiece); }
int64_t pieces_of_thread(const GroupNormProblem& p, int cluster) {
  const int64_t threads = int64_t{cluster} * kGroupNormThreads;
  return (group_pieces(p) + threads - 1) / threads;
}
// Whether a cluster has room for a group, and a grid for all of them.
bool keeps_groups(const GroupNormProblem& p, const GroupNormConfig& c) {
  constexpr int64_t kMostClusters = (int64_t{1} << 31) / kGroupTogetherBlocks - 1;
  return p.elements() > 0 && p.images <= kMostClusters / p.groups && pieces_of_thread(p, c.cluster) <= c.pieces;
}
// As many blocks as a thread's pieces need, and a device is busy with; nothing where no cluster is large enough.
std::optional<GroupNormConfig> together_config(const GroupNormProblem& p, const DeviceSpec& device) {
  GroupNormConfig c = group_norm_gpu_config(p);
  const int most = group_together_pieces(c.dtype);
  for (c.cluster = 1;; c.cluster *= 2) {
    const int64_t pieces = pieces_of_thread(p, c.cluster);
    c.pieces = static_cast<int>(std::min<int64_t>(pieces, most + 1));
    const bool busy = p.images * p.groups * c.cluster >= device.units;
    if (c.cluster == kGroupTogetherBlocks || pieces <= 1 || (pieces <= most && busy)) break;
  }
  if (!check_together(c, device.arch->target, p.backward != 0) || !keeps_groups(p, c)) return std::nullopt;
  return c;
}
GroupNormChunks gpu_chunks(const GroupNormProblem& p) {
  if (p.channels_last != 0) return group_norm_chunks(p, kGroupNormGpuSpanLast, kGroupNormDown);
  return group_norm_chunks(p, kGroupNormGpuSpan, int64_t{kRowLanes} * kRowPiece);
}
// Blocks that a step keeps busy.
int64_t group_norm_grid(const GroupNormProblem& p, const GroupNormChunks& chunks, GroupNormStep step) {
  // The kernel goes on where the grid ends; AMD GPUs count work-items in 32 bits.
  constexpr int64_t kMost = (int64_t{1} << 31) / kGroupNormThreads - 1;
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
    if (const auto together = generic_ ? std::nullopt : together_config(p, device)) add(*together);
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
    if (config.cluster > 0 && keeps_groups(p, config)) {
      need.cluster = config.cluster, need.pieces = config.pieces;
    }
    if (config == need) return {};
    return refuse_group_norm_gpu(
        fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GroupNormConfig config{};
    if (!parse_gpu_config(step.key, config)) config = {};
    return predict_gpu(problem_cast<GroupNormProblem>(ref), device, config.cluster > 0);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep&) const override {
    const auto& p = problem_cast<GroupNormProblem>(ref);
    const int64_t begin = channel_floats_begin(p.images, gpu_chunks(p).count, p.channels);
    return (begin + p.images * p.channels * kGroupNormChannelFloats) * static_cast<int64_t>(sizeof(float));
  }
  std::string numerics_id(const RecipeStep& step) const override {
    GroupNormConfig config{};
    if (!parse_gpu_config(step.key, config) || config.cluster == 0) return "chunks";
    return fmt::format("cluster:{}:{}", config.cluster, config.pieces);
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
                               c.whole ? "" : "-any", c.cluster > 0 ? fmt::format("-{}x{}", c.cluster, c.pieces) : "");
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = gpu_instance_source(
        find_arch(key.target)->vendor, fmt::format("{0}/{0}_gpu.cuh", op_), request.entry,
        fmt::format("{}_gpu<tilewright::{}{}>", op_, GroupNormConfig::kTypeName, cpp_initializer(c)), "GroupNormArgs",
        kGroupNormThreads, group_norm_blocks(c, find_arch(key.target)->vendor));
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey&) const override {
    return std::max(kGroupNormSharedBytes, row_shared_bytes(kGroupTogetherBlocks));
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || arch->vendor == ArchVendor::kX86) return keys;
    if (generic_) return {key_of({}, target)};
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      for (const bool last : {false, true}) keys.push_back(key_of({dtype, last, true}, target));
      for (const int cluster : {1, 2, 4, 8}) {
        const GroupNormConfig most{dtype, false, true, cluster, group_together_pieces(dtype)};
        if (check_together(most, target, op_ != "group_norm")) keys.push_back(key_of(most, target));
      }
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GroupNormProblem>(ref);
    const GroupNormChunks chunks = gpu_chunks(p);
    std::vector<Stage> stages;
    GroupNormConfig config{};
    if (Status s = parse_gpu_config(step.key, config); !s) return s;
    if (config.cluster > 0) {
      const int64_t blocks = p.images * p.groups * config.cluster;
      Stage& stage = stages.emplace_back(group_norm_stage(p, chunks, kernel));
      set_group_norm_step(stage, GroupNormStep::kWhole, blocks);
      stage.shape.grid = {static_cast<uint32_t>(blocks), 1, 1};
      stage.shape.cluster = {static_cast<uint32_t>(config.cluster), 1, 1};
      stage.shape.threads = kGroupNormThreads;
      stage.shape.shared_bytes = static_cast<uint32_t>(row_shared_bytes(config.cluster));
      return stages;
    }
    for (const GroupNormStep each : group_norm_steps(p)) {
      const int64_t grid = group_norm_grid(p, chunks, each);
      Stage& stage = stages.emplace_back(group_norm_stage(p, chunks, kernel));
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
    if (is_group_norm_config(c) && c.cluster == 0 && c.pieces == 0) return {};
    if (is_group_norm_config(c)) {
      const Status s = check_together(c, key.target, op_ != "group_norm");
      return s ? s : refuse_group_norm_gpu(key.text + ": " + s.message());
    }
    return refuse_group_norm_gpu(key.text + ": allowed: f32, f16, bf16");
  }
  double predict_gpu(const GroupNormProblem& p, const DeviceSpec& device, bool together) const {
    const double bytes_seconds = group_norm_bytes(p) / memory_bytes_per_second(device);
    if (together) return kGroupNormTogetherLaunchSeconds + bytes_seconds;
    return (kGroupNormGpuLaunchSeconds + 1.5 * bytes_seconds) * (generic_ ? 4 : 1);
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
