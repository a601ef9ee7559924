// SPDX-License-Identifier: MIT
// moe_routing_gpu, an instance for each type and way to share a token among lanes, and moe_routing_generic_gpu, which is typed at run
// time: every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/moe_routing/families/moe_routing_families.hpp"

namespace tilewright {
namespace {

constexpr double kRouterGpuLaunchSeconds = 3e-6;
constexpr int kMostSlots = 64, kUsualSlots = 32, kUsualLanes = 8;
constexpr int64_t kManyTokens = 12288;
constexpr int kSieveParts = 16, kLeastSieved = 16, kFewSlots = 16;

int ceil_power(int64_t x) { return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x, 1)))); }
int64_t kernel_groups(const MoeRoutingProblem& p) { return p.grouped() ? p.groups : 1; }
int64_t pieces_of_group(const MoeRoutingProblem& p) {
  return (p.experts / kernel_groups(p) + kRowPiece - 1) / kRowPiece;
}

// Whether every lane has all its slots, in pieces that one load takes.
bool fills_lanes(const MoeRoutingProblem& p, const MoeRoutingGpuConfig& c) {
  return kernel_groups(p) == c.lanes / c.group_lanes &&
         p.experts / kernel_groups(p) == int64_t{c.group_lanes} * c.slots && p.unaligned == 0 &&
         p.stride_logits % kRowPiece == 0;
}

// Up to 32 experts a lane: a list of four costs the more the fewer there are to choose from. Few experts still have eight lanes, so
// that there are threads enough.
MoeRoutingGpuConfig router_gpu_config(const MoeRoutingProblem& p, ArchVendor vendor) {
  const int64_t pieces = pieces_of_group(p);
  const int groups = ceil_power(kernel_groups(p)), most = kRowLanes / groups;
  const int for_slots = ceil_power((pieces * kRowPiece + kUsualSlots - 1) / kUsualSlots);
  const int for_lanes = std::min(ceil_power(pieces), std::max(kUsualLanes / groups, 1));
  const int group_lanes = std::min(std::max(for_slots, for_lanes), most), lanes = group_lanes * groups;
  const auto slots = static_cast<int>((pieces + group_lanes - 1) / group_lanes * kRowPiece);
  MoeRoutingGpuConfig c{p.x, lanes, group_lanes, slots, 0, false, false};
  c.kept = static_cast<int>((p.k + lanes - 1) / lanes);
  c.wide = p.x == DType::kF32 || p.scored();
  c.few = p.k <= 4 ? 4 : p.k <= 8 ? 8 : 0;
  c.whole = fills_lanes(p, c), c.edge = p.programmatic_edge != 0 && p.tokens <= kEdgedTokens;
  if (vendor != ArchVendor::kNvidia || c.slots < kLeastSieved) return c;
  // A sieve wants sixteen parts, of groups that are chosen from.
  MoeRoutingGpuConfig sieve = c;
  sieve.plain = true, sieve.score = p.score, sieve.bias = p.bias, sieve.scored = p.scored();
  sieve.sieve = kSieveParts / static_cast<int>(p.grouped() ? p.topk_groups * c.group_lanes : c.lanes);
  if (router_sieve_refusal(sieve) != nullptr) return c;
  if (c.wide || c.slots > kFewSlots) return sieve;
  // Narrow keys of few experts a lane are in order as soon; with tokens enough four lanes, which do less in all and take longer. They would sum a
  // softmax of all in another order.
  MoeRoutingGpuConfig four = sieve;
  four.lanes = four.group_lanes = 4, four.slots = 2 * c.slots, four.kept = static_cast<int>((p.k + 3) / 4);
  four.sieve = kSieveParts / 4;
  const bool sums = p.score == RouterScore::kSoftmax && p.renormalise == 0;
  return p.tokens >= kManyTokens && !sums && router_sieve_refusal(four) == nullptr ? four : c;
}
// 32 lanes for any number of groups.
MoeRoutingGpuConfig generic_router_config(int groups) {
  return {DType::kNone, kRowLanes, kRowLanes / groups, kMostSlots, 1, true, false};
}
// Registers for this many blocks on an SM; on AMD GPUs, waves of a SIMD.
int router_blocks(const MoeRoutingGpuConfig& c) {
  if (c.sieve > 0) return c.lanes == 4 || c.group_lanes < c.lanes ? 3 : 4;
  return c.wide && c.slots > kUsualSlots && c.x != DType::kNone ? 2 : c.wide || c.slots > kUsualSlots ? 3 : 4;
}

class MoeRoutingGpuFamily final : public KernelFamily {
 public:
  explicit MoeRoutingGpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "moe_routing_generic_gpu" : "moe_routing_gpu"; }
  std::string_view op() const override { return "moe_routing"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return {};
    return refuse_gpu_router(fmt::format("{} is no GPU", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<MoeRoutingProblem>(ref);
    const double cost = predict_gpu_router(p, device);
    std::vector<Candidate> found{{{own_key(p, device.arch->target), {}}, cost}};
    if (p.programmatic_edge && !generic_) {  // the kernel of plain calls, which may be built already
      MoeRoutingProblem plain = p;
      plain.programmatic_edge = 0;
      const KernelKey key = own_key(plain, device.arch->target);
      if (!(key == found.front().step.key)) found.push_back({{key, {}}, 1.1 * cost});
    }
    return found;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    MoeRoutingGpuConfig c;
    if (Status s = parse_gpu_router(step.key, c); !s) return s;
    const auto& p = problem_cast<MoeRoutingProblem>(ref);
    const auto takes = [&](bool holds, const char* what) {
      return holds ? Status() : refuse_gpu_router(fmt::format("{}: the problem has other {}", step.key.text, what));
    };
    Status s = takes(generic_ || c.x == p.x, "logits");
    if (s && c.plain) s = takes(c.score == p.score && c.bias == p.bias && c.scored == p.scored(), "scores");
    if (s) s = takes(c.wide || !p.scored(), "keys");
    if (s) s = takes(c.few == 0 || p.k <= c.few, "numbers of chosen");
    if (s) s = takes(c.lanes / c.group_lanes >= kernel_groups(p), "groups");
    if (s) s = takes((pieces_of_group(p) + c.group_lanes - 1) / c.group_lanes * kRowPiece <= c.slots, "experts");
    if (s) s = takes(int64_t{c.kept} * c.lanes >= p.k, "numbers of chosen");
    if (s) s = takes(walks(device) || blocks_of(p, c) <= kMostGridBlocks, "numbers of tokens");
    return s ? takes(!c.whole || fills_lanes(p, c), "rows") : s;
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_gpu_router(problem_cast<MoeRoutingProblem>(ref), device);
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    MoeRoutingGpuConfig c;
    return parse_gpu_router(key, c).ok() ? router_shared_bytes(c) : 0;
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep& step) const override {
    MoeRoutingGpuConfig c;
    if (!parse_gpu_router(step.key, c)) return "";
    return fmt::format("lanes{}x{}", c.lanes, c.group_lanes);
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    MoeRoutingGpuConfig c;
    if (Status s = parse_gpu_router(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("{}-{}-{}x{}{}", name(), dtype_name(c.x), c.lanes, c.slots, c.wide ? "-wide" : "");
    request.entry = fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source = gpu_instance_source(
        find_arch(key.target)->vendor, "moe_routing/moe_routing_gpu.cuh", request.entry,
        fmt::format("moe_routing_gpu<tilewright::{}{}>", MoeRoutingGpuConfig::kTypeName, cpp_initializer(c)),
        "MoeRoutingArgs", kRouterThreads, router_blocks(c));
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || arch->vendor == ArchVendor::kX86) return keys;
    if (generic_) {
      for (int groups = 1; groups <= kMostExpertGroups; groups *= 2) keys.push_back(generic_gpu_key(groups, target));
      return keys;
    }
    // Mixtral, gpt-oss, Qwen3, DeepSeek-V3, Kimi-K2.
    for (const char* text :
         {"t=1:e=8:k=2:x=bf16:renormalise=1", "t=1:e=32:k=4:x=bf16:renormalise=1", "t=1:e=128:k=8:x=bf16:renormalise=1",
          "t=16384:e=128:k=8:x=bf16:renormalise=1", "t=1:e=256:k=8:x=bf16", "t=1:e=256:k=8:x=f32",
          "t=1:e=256:k=8:x=f16", "t=1:e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1",
          "t=1:e=256:k=8:x=f32:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1",
          "t=1:e=384:k=8:x=f32:score=sigmoid:bias=f32:renormalise=1", "t=1:e=512:k=10:x=bf16:renormalise=1"}) {
      keys.push_back(own_key(*parse_moe_routing_problem(text), target));
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    MoeRoutingGpuConfig c;
    if (Status s = parse_gpu_router(step.key, c); !s) return s;
    const auto& p = problem_cast<MoeRoutingProblem>(ref);
    if (p.tokens == 0) return std::vector<Stage>{};
    const int64_t most = walks(device) ? most_walking_blocks(kRouterThreads) : kMostGridBlocks;
    const int64_t grid = std::min<int64_t>(blocks_of(p, c), most);
    Stage stage = moe_routing_stage(p, grid, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stage.shape.threads = kRouterThreads;
    stage.shape.shared_bytes = router_shared_bytes(c);
    stage.shape.programmatic_edge = c.edge;
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  bool walks(const DeviceSpec& device) const { return generic_ || device.arch->vendor == ArchVendor::kAmd; }
  static int64_t blocks_of(const MoeRoutingProblem& p, const MoeRoutingGpuConfig& c) {
    const int64_t tokens = kRouterThreads / c.lanes;
    return (p.tokens + tokens - 1) / tokens;
  }
  Status refuse_gpu_router(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey generic_gpu_key(int groups, std::string_view target) const {
    return make_key(op(), name(), target, "any", fmt::format("groups={}", groups));
  }
  KernelKey gpu_router_key(const MoeRoutingGpuConfig& c, std::string_view target) const {
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(c.x)), print_fields(c));
  }
  KernelKey own_key(const MoeRoutingProblem& p, std::string_view target) const {
    return generic_ ? generic_gpu_key(ceil_power(kernel_groups(p)), target)
                    : gpu_router_key(router_gpu_config(p, find_arch(target)->vendor), target);
  }
  Status parse_gpu_router(const KernelKey& key, MoeRoutingGpuConfig& c) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    if (generic_) {
      for (int groups = 1; groups <= kMostExpertGroups; groups *= 2) {
        c = generic_router_config(groups);
        if (gpu && key == generic_gpu_key(groups, key.target)) return {};
      }
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse_gpu_router(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu_router(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == gpu_router_key(c, key.target)))
      return refuse_gpu_router(key.text + ": signature and config name different types");
    const auto power = [](int x) { return x >= 1 && x <= kRowLanes && std::has_single_bit(static_cast<unsigned>(x)); };
    const bool legal = power(c.lanes) && power(c.group_lanes) && c.group_lanes <= c.lanes && c.slots >= kRowPiece &&
                       c.slots <= kMostSlots && c.slots % kRowPiece == 0 && c.kept >= 1 &&
                       c.kept * c.lanes < kMostChosen + c.lanes && (c.wide || c.x != DType::kF32) &&
                       (c.few == 0 || c.few == 4 || c.few == 8) &&
                       (c.x == DType::kF32 || c.x == DType::kF16 || c.x == DType::kBf16);
    if (!legal) return refuse_gpu_router(key.text + ": no legal config");
    if (c.sieve == 0) return {};
    if (arch->vendor != ArchVendor::kNvidia) return refuse_gpu_router(key.text + ": a sieve is for NVIDIA GPUs");
    const char* const refusal = router_sieve_refusal(c);
    return refusal == nullptr ? Status() : refuse_gpu_router(fmt::format("{}: {}", key.text, refusal));
  }
  double predict_gpu_router(const MoeRoutingProblem& p, const DeviceSpec& device) const {
    return (kRouterGpuLaunchSeconds + moe_routing_bytes(p) / memory_bytes_per_second(device)) * (generic_ ? 8 : 1);
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& moe_routing_gpu_family() {
  static const MoeRoutingGpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& moe_routing_generic_gpu_family() {
  static const MoeRoutingGpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
