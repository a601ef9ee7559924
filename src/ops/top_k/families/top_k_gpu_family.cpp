// SPDX-License-Identifier: MIT
// top_k_gpu, an instance for each type, and top_k_generic_gpu, which is typed at run time: every valid problem runs. One source for
// NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/top_k/families/top_k_families.hpp"

namespace tilewright {
namespace {

constexpr double kTopKGpuLaunchSeconds = 3e-6;
constexpr int kTopKBlocks = 2;  // registers for so many on an SM; on AMD GPUs, waves of a SIMD

int64_t top_k_chunks(const TopKProblem& p) { return std::max<int64_t>((p.n + kTopKChunk - 1) / kTopKChunk, 1); }

class TopKGpuFamily final : public KernelFamily {
 public:
  explicit TopKGpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "top_k_generic_gpu" : "top_k_gpu"; }
  std::string_view op() const override { return "top_k"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return {};
    return refuse_gpu_top_k(fmt::format("{} is no GPU", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<TopKProblem>(ref);
    return {{{key_of(config_of(p), device.arch->target), {}}, predict_gpu_top_k(p, device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    TopKGpuConfig c{};
    if (Status s = parse_gpu_top_k(step.key, c); !s) return s;
    if (c == config_of(problem_cast<TopKProblem>(ref))) return {};
    return refuse_gpu_top_k(fmt::format("{}: the problem has another x, or another k", step.key.text));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_gpu_top_k(problem_cast<TopKProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep&) const override {
    const auto& p = problem_cast<TopKProblem>(ref);
    return top_k_workspace_bytes(p.rows, top_k_chunks(p), static_cast<int>(p.k));
  }
  std::string numerics_id(const RecipeStep&) const override { return "chunks"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    TopKGpuConfig c{};
    if (Status s = parse_gpu_top_k(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    const std::string_view many = c.few ? "few" : "many";
    request.name =
        generic_ ? fmt::format("{}-{}", name(), many) : fmt::format("{}-{}-{}", name(), dtype_name(c.x), many);
    request.entry =
        generic_ ? fmt::format("tw_{}_{}", name(), many) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source =
        gpu_instance_source(find_arch(key.target)->vendor, "top_k/top_k_gpu.cuh", request.entry,
                            fmt::format("top_k_gpu<tilewright::{}{}>", TopKGpuConfig::kTypeName, cpp_initializer(c)),
                            "TopKArgs", kSelectThreads, kTopKBlocks);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    TopKGpuConfig c{};
    return parse_gpu_top_k(key, c) ? top_k_shared_bytes(c.few) : 0;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || arch->vendor == ArchVendor::kX86) return keys;
    for (const DType x : {DType::kNone, DType::kF32, DType::kF16, DType::kBf16}) {
      if (generic_ != (x == DType::kNone)) continue;
      for (const bool few : {true, false}) keys.push_back(key_of({x, few}, target));
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<TopKProblem>(ref);
    const int64_t chunks = top_k_chunks(p);
    const int k = static_cast<int>(p.k);
    const int64_t groups = top_k_most_groups(k, chunks);
    const bool few = top_k_few(k, chunks);
    std::vector<Stage> stages;
    const auto add = [&](TopKStep what, int64_t blocks) {
      TopKArgs args{};
      args.step = what, args.chunks = chunks, args.groups = groups, args.places = top_k_places(k);
      args.waits = !stages.empty();
      args.grid = std::clamp<int64_t>(blocks, 1, most_walking_blocks(kSelectThreads));
      Stage& stage = stages.emplace_back(top_k_stage(p, args, kernel));
      stage.shape.grid = {static_cast<uint32_t>(args.grid), 1, 1};
      stage.shape.threads = kSelectThreads;
      stage.shape.stage_edge = args.waits;
      stage.shape.shared_bytes = few || what == TopKStep::kChoose ? top_k_shared_bytes(few) : 0;
      stage.patches.push_back({ArgPatch::Kind::kWorkspace, 0, static_cast<uint32_t>(offsetof(TopKArgs, workspace))});
    };
    // Of many best, a block of an NVIDIA GPU asks for its next chunk while it has one: as many as run at a time go on.
    const bool ahead = !few && device.arch->vendor == ArchVendor::kNvidia;
    const int64_t at_once = ahead ? int64_t{kTopKBlocks} * device.units : most_walking_blocks(kSelectThreads);
    if (few || groups > 0) add(TopKStep::kFind, std::min(p.rows * chunks, at_once));
    if (!few || chunks > 1) add(TopKStep::kChoose, p.rows);
    return stages;
  }

 private:
  Status refuse_gpu_top_k(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  TopKGpuConfig config_of(const TopKProblem& p) const {
    return {generic_ ? DType::kNone : p.x, top_k_few(static_cast<int>(p.k), top_k_chunks(p))};
  }
  KernelKey key_of(const TopKGpuConfig& c, std::string_view target) const {
    if (generic_) return make_key(op(), name(), target, "any", fmt::format("run_time=1:few={}", c.few ? 1 : 0));
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(c.x)), print_fields(c));
  }
  Status parse_gpu_top_k(const KernelKey& key, TopKGpuConfig& c) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    if (generic_) {
      for (const bool few : {true, false}) {
        c = {DType::kNone, few};
        if (gpu && key == key_of(c, key.target)) return {};
      }
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse_gpu_top_k(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu_top_k(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(c, key.target)))
      return refuse_gpu_top_k(key.text + ": signature and config name different types");
    const bool legal = c.x == DType::kF32 || c.x == DType::kF16 || c.x == DType::kBf16;
    return legal ? Status() : refuse_gpu_top_k(key.text + ": no legal config");
  }
  double predict_gpu_top_k(const TopKProblem& p, const DeviceSpec& device) const {
    return (kTopKGpuLaunchSeconds + top_k_bytes(p) / memory_bytes_per_second(device)) * (generic_ ? 2 : 1);
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& top_k_gpu_family() {
  static const TopKGpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& top_k_generic_gpu_family() {
  static const TopKGpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
