// SPDX-License-Identifier: MIT
// sample_gpu, an instance for each type, and sample_generic_gpu, which is typed at run time: every valid problem runs. One source for
// NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/sample/families/sample_families.hpp"

namespace tilewright {
namespace {

constexpr double kSampleGpuLaunchSeconds = 3e-6;
constexpr int kSampleBlocks = 2;  // registers for so many on an SM; on AMD GPUs, waves of a SIMD

int64_t sample_chunks(const SampleProblem& p) { return (p.vocabulary + kSampleChunk - 1) / kSampleChunk; }

class SampleGpuFamily final : public KernelFamily {
 public:
  explicit SampleGpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "sample_generic_gpu" : "sample_gpu"; }
  std::string_view op() const override { return "sample"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return {};
    return refuse_gpu_sample(fmt::format("{} is no GPU", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<SampleProblem>(ref);
    return {{{key_of(p.x, device.arch->target), {}}, predict_gpu_sample(p, device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    SampleConfig c{};
    if (Status s = parse_gpu_sample(step.key, c); !s || generic_) return s;
    if (c.x == problem_cast<SampleProblem>(ref).x) return {};
    return refuse_gpu_sample(fmt::format("{}: the problem has other logits", step.key.text));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_gpu_sample(problem_cast<SampleProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep&) const override {
    const auto& p = problem_cast<SampleProblem>(ref);
    return sample_workspace_bytes(p.rows, sample_chunks(p), p.greedy == 0);
  }
  std::string numerics_id(const RecipeStep&) const override { return "chunks"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    SampleConfig c{};
    if (Status s = parse_gpu_sample(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), dtype_name(c.x));
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    request.source =
        gpu_instance_source(find_arch(key.target)->vendor, "sample/sample_gpu.cuh", request.entry,
                            fmt::format("sample_gpu<tilewright::{}{}>", SampleConfig::kTypeName, cpp_initializer(c)),
                            "SampleArgs", kSelectThreads, kSampleBlocks);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey&) const override { return kSampleSharedBytes; }
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
    const auto& p = problem_cast<SampleProblem>(ref);
    const int64_t chunks = sample_chunks(p);
    std::vector<Stage> stages;
    const auto add = [&](SampleStep what, int64_t blocks) {
      SampleArgs args{};
      args.step = what, args.chunks = chunks,
      args.grid = std::clamp<int64_t>(blocks, 1, most_walking_blocks(kSelectThreads));
      Stage& stage = stages.emplace_back(sample_stage(p, args, kernel));
      stage.shape.grid = {static_cast<uint32_t>(args.grid), 1, 1};
      stage.shape.threads = kSelectThreads;
      stage.shape.stage_edge = what == SampleStep::kChoose;
      stage.shape.shared_bytes = what == SampleStep::kChoose && p.greedy == 0 ? kSampleSharedBytes : kSelectSharedBytes;
      const auto patch = [&stage](size_t offset, int64_t add) {
        stage.patches.push_back({ArgPatch::Kind::kWorkspace, 0, static_cast<uint32_t>(offset), add});
      };
      patch(offsetof(SampleArgs, found), 0);
      if (p.greedy == 0) patch(offsetof(SampleArgs, bins), sample_workspace_bytes(p.rows, chunks, /*draws=*/false));
    };
    // On NVIDIA a block asks for its next chunk while it has one, so as many as run at a time go on.
    const int64_t at_once = device.arch->vendor == ArchVendor::kNvidia ? int64_t{kSampleBlocks} * device.units
                                                                       : most_walking_blocks(kSelectThreads);
    add(SampleStep::kFind, std::min(p.rows * chunks, at_once));
    add(SampleStep::kChoose, p.rows);
    return stages;
  }

 private:
  Status refuse_gpu_sample(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey key_of(DType x, std::string_view target) const {
    if (generic_) return make_key(op(), name(), target, "any", "run_time=1");
    return make_key(op(), name(), target, fmt::format("x={}", dtype_name(x)), print_fields(SampleConfig{x}));
  }
  Status parse_gpu_sample(const KernelKey& key, SampleConfig& c) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    if (generic_) {
      c = {DType::kNone};
      if (gpu && key == key_of(DType::kNone, key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse_gpu_sample(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu_sample(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(c.x, key.target)))
      return refuse_gpu_sample(key.text + ": signature and config name different types");
    const bool legal = c.x == DType::kF32 || c.x == DType::kF16 || c.x == DType::kBf16;
    return legal ? Status() : refuse_gpu_sample(key.text + ": no legal config");
  }
  double predict_gpu_sample(const SampleProblem& p, const DeviceSpec& device) const {
    return (kSampleGpuLaunchSeconds + sample_bytes(p) / memory_bytes_per_second(device)) * (generic_ ? 2 : 1);
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& sample_gpu_family() {
  static const SampleGpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& sample_generic_gpu_family() {
  static const SampleGpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
