// SPDX-License-Identifier: MIT
// gemv_gpu: at most eight rows of A, weights streamed once.
#include <algorithm>

#include <fmt/format.h>

#include "core/fields.hpp"
#include "gemm/portable/gemv_gpu_args.hpp"
#include "ops/gemm/families/cuda/cuda_problem.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/cuda/portable/weight_stream_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {
namespace {

struct Cut {
  int rows, warps, depth, blocks;
};
constexpr Cut kCuts[] = {{16, 8, 4, 2}, {16, 8, 2, 4}, {16, 4, 4, 4}};
constexpr double kShortSteps = 1.02;                    // of blocks that bring less than 32 KB a step, on long rows
constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;  // of a launch
constexpr int64_t kMaxRowBytes = int64_t{1} << 30;      // the kernel counts a row's bytes in 32 bits

Status refuse(std::string_view message) {
  return Status(StatusCode::kUnsupported, fmt::format("gemv_gpu: {}", message));
}

GemvGpuConfig make_config(const GemmProblem& p, const Cut& cut) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  return {p.a_dtype, e.kind, e.activation, e.gate, e.d_dtype, cut.rows, cut.warps, cut.depth, cut.blocks};
}

KernelKey key_of(const GemvGpuConfig& c, std::string_view target) {
  return make_key("gemm", "gemv_gpu", target, fmt::format("dtype={}", dtype_name(c.dtype)), print_fields(c));
}

Status parse_config(const KernelKey& key, GemvGpuConfig& config) {
  const ArchSpec* arch = find_arch(key.target);
  if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return refuse(key.text + ": no target of NVIDIA");
  if (Status s = parse_fields(key.config(), config); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
  if (key.signature() != fmt::format("dtype={}", dtype_name(config.dtype))) {
    return refuse(key.text + ": signature and config name different dtypes");
  }
  if (const char* reason = gemv_gpu_refusal(config)) return refuse(fmt::format("{}: {}", key.text, reason));
  return {};
}

double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvGpuConfig& c) {
  WeightStream stream;
  stream.bytes = gemm_bytes_moved(p);
  stream.blocks = static_cast<double>(gemv_gpu_blocks(c, p.n) * p.batch);
  stream.resident = c.blocks;
  // What a block has in flight, and what it brings at all.
  const double rows = c.rows * static_cast<double>(dtype_bits(c.dtype)) / 8;
  stream.block_bytes = rows * static_cast<double>(p.k);
  stream.block_in_flight = std::min(stream.block_bytes, 2.0 * c.rows * c.warps * c.depth * kGemvLineBytes);
  const bool is_short = stream.block_in_flight < 65536 && stream.block_bytes >= 2 * 65536;
  return weight_stream_seconds(device, stream) * (is_short ? kShortSteps : 1);
}

class GemvGpuFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemv_gpu"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    Status s = check_cuda_device(device);
    if (s) s = check_cuda_problem(p);
    if (!s) return refuse(s.message());
    if (p.m > kGemvTokens) return refuse(fmt::format("M = {}, allowed: at most {}", p.m, kGemvTokens));
    if (p.batch_invariant) return refuse("batch_invariant: more rows are summed in another order");
    if (const char* reason = gemv_gpu_refusal(make_config(p, kCuts[0]))) return refuse(reason);
    if (portable_mma(*device.arch, p.a_dtype, PortableMma::kMma) == nullptr) {
      return refuse(fmt::format("{} has no instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    const int64_t row_bytes = p.k * (dtype_bits(p.a_dtype) / 8);
    if (row_bytes > kMaxRowBytes) return refuse(fmt::format("K = {}: rows longer than {} bytes", p.k, kMaxRowBytes));
    for (const auto& [name, access] : {std::pair{"a", access_a(p)}, {"b", access_b(p)}}) {
      if (access.major != Major::kK || access.copy != 16) {
        return refuse(fmt::format("{}: the kernel wants rows along K, at multiples of 16 bytes", name));
      }
    }
    if (row_bytes % 16 != 0) return refuse(fmt::format("K = {}: the kernel wants whole pieces of 16 bytes", p.k));
    if (p.n / kCuts[0].rows + 1 > kMaxBlocks / p.batch) return refuse(fmt::format("more than {} blocks", kMaxBlocks));
    return {};
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const Cut& cut : kCuts) {
      const GemvGpuConfig config = make_config(p, cut);
      if (gemv_gpu_refusal(config) != nullptr) continue;
      found.push_back({{key_of(config, device.arch->target), {}}, cost_of(p, device, config)});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GemvGpuConfig c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.a_dtype)));
    }
    // A full epilogue serves every problem of its gate.
    const GemmEpilogueConfig have = gemv_gpu_epilogue(c), need = choose_epilogue(p);
    const bool full = have.kind == EpilogueKind::kFull && (have.d_dtype == DType::kNone || have.d_dtype == p.d_dtype);
    if (have.gate != need.gate || (!full && !(have == need))) {
      return refuse(
          fmt::format("the kernel's epilogue is {}, the problem needs {}", print_fields(have), print_fields(need)));
    }
    return {};
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemvGpuConfig config;
    if (!parse_config(step.key, config)) return 0;
    return cost_of(problem_cast<GemmProblem>(ref), device, config);
  }

  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }

  std::string numerics_id(const RecipeStep& step) const override {
    GemvGpuConfig config;
    if (!parse_config(step.key, config)) return "";
    return fmt::format("interleaved{}x{}:mma", config.warps, config.depth);
  }

  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemvGpuConfig config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("gemv_gpu-{}-{}x{}", dtype_name(config.dtype), config.rows, config.warps);
    request.entry = fmt::format("tw_gemv_gpu_{}", key.digest.hex());
    request.source = cuda_instance_source("gemm/portable/gemv_gpu.cuh", request.entry,
                                          fmt::format("gemv_gpu<tilewright::GemvGpuConfig{}>", cpp_initializer(config)),
                                          "GemmArgs", gemv_gpu_threads(config), config.blocks);
    return request;
  }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return keys;
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kI8}) {
      GemmProblem p;
      p.m = 1, p.n = p.k = 4096;
      p.a_dtype = p.b_dtype = dtype;
      p.d_dtype = dtype == DType::kI8 ? DType::kBf16 : dtype;
      if (dtype == DType::kI8) p.has_alpha = 1;
      if (portable_mma(*arch, dtype, PortableMma::kMma) == nullptr) continue;
      keys.push_back(key_of(make_config(p, kCuts[0]), target));
    }
    return keys;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GemmProblem>(ref);
    GemvGpuConfig config;
    if (Status s = parse_config(step.key, config); !s) return s;
    Stage stage = gemm_stage(p, {}, 1, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(gemv_gpu_blocks(config, p.n) * p.batch), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemv_gpu_threads(config));
    stage.shape.shared_bytes = static_cast<uint32_t>(gemv_gpu_shared_bytes(config));
    return std::vector<Stage>{std::move(stage)};
  }
};

}  // namespace

const KernelFamily& gemv_gpu_family() {
  static const GemvGpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
