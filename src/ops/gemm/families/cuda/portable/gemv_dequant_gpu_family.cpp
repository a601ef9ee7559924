// SPDX-License-Identifier: MIT
// gemv_dequant_gpu: few rows of A in 16 bits, narrow weights streamed once and widened in registers.
#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "ops/gemm/families/cuda/narrow_weights_family.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/cuda/portable/gemv_dequant_gpu_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

struct Cut {
  int rows, warps, depth, blocks;
};
constexpr Cut kCuts[] = {{32, 8, 2, 2}, {16, 8, 4, 2}, {16, 16, 4, 1}, {32, 16, 2, 1}, {32, 8, 2, 1}, {16, 8, 2, 1}};
constexpr int kMostTokens = 16;
constexpr int kMostSteps = 64;
constexpr int kBlockShared = 1024;  // of every block, the system's own

int tokens_of(int64_t m) {
  int tokens = 1;
  while (tokens < m) tokens *= 2;
  return tokens;
}

// As many steps of A as shared memory holds; 0 of them: the cut does not fit.
GemvDequantGpuConfig make_config(const GemmProblem& p, const ArchSpec& arch, const Cut& cut) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  GemvDequantGpuConfig c{.dtype = p.a_dtype,
                         .weight = p.b_dtype,
                         .scale = p.scale_b.blocked() ? p.scale_b.dtype : DType::kNone,
                         .group = p.scale_b.k,
                         .zero = p.zero_b.dtype,
                         .epilogue = e.kind,
                         .activation = e.activation,
                         .gate = e.gate,
                         .d_dtype = e.d_dtype,
                         .rows = cut.rows,
                         .tokens = tokens_of(p.m),
                         .warps = cut.warps,
                         .depth = cut.depth,
                         .steps = 1,
                         .blocks = cut.blocks};
  if (gemv_dequant_gpu_refusal(c) != nullptr) return c;
  const int space = (arch.shared_bytes + kBlockShared) / c.blocks - kBlockShared;
  const int fixed = gemv_dequant_gpu_shared_bytes(c, 0, 2), of_step = gemv_dequant_gpu_shared_bytes(c, 1, 2) - fixed;
  c.steps = std::clamp((space - fixed) / of_step, 0, kMostSteps);
  return c;
}
int64_t grid_of(const GemmProblem& p, const DeviceSpec& device, const GemvDequantGpuConfig& c) {
  return std::min<int64_t>(gemv_dequant_gpu_tiles(c, p.n) * p.batch, int64_t{std::max(1, device.units)} * c.blocks);
}

class GemvDequantGpuFamily final : public NarrowWeightsFamily<GemvDequantGpuConfig> {
 public:
  GemvDequantGpuFamily()
      : NarrowWeightsFamily("gemv_dequant_gpu",
                            {ArchVendor::kNvidia, "portable/dequant/gemv_dequant_gpu.cuh", "GemvDequantGpuArgs"}) {}

 protected:
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (Status s = check_scales_of_columns(p); !s) return s;
    if (p.m > kMostTokens) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kMostTokens));
    if (p.batch_invariant) return unsupported("batch_invariant: more rows are summed in another order");
    const auto fits = [&](const Cut& cut) {
      return refusal_of(make_config(p, *device.arch, cut), *device.arch) == nullptr;
    };
    if (!std::ranges::any_of(kCuts, fits)) {
      return unsupported(refusal_of(make_config(p, *device.arch, kCuts[0]), *device.arch));
    }
    if (Status s = check_rows_along_k(p); !s) return s;
    const int whole = 128 / dtype_bits(p.b_dtype);
    if (p.k % whole != 0) return unsupported(fmt::format("K = {}, allowed: multiples of {}", p.k, whole));
    constexpr int64_t kMost = int64_t{1} << 30;
    for (const int64_t stride : {p.stride_a_m, p.stride_b_n, p.scale_b.stride_outer, p.scale_b.stride_k,
                                 p.zero_b.stride_outer, p.zero_b.stride_k}) {
      if (stride < -kMost || stride > kMost) {
        return unsupported(fmt::format("a stride of {}, allowed: at most {}", stride, kMost));
      }
    }
    if (p.n > kMost) return unsupported(fmt::format("N = {}, allowed: at most {}", p.n, kMost));
    if (p.k > kMost) return unsupported(fmt::format("K = {}, allowed: at most {}", p.k, kMost));
    if (p.n / kCuts[0].rows + 1 > kMost / p.batch) return unsupported(fmt::format("more than {} tiles", kMost));
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec&, const GemvDequantGpuConfig& c,
                    const Knobs&) const override {
    return check_weights(p, c);
  }

  const char* refusal_of(const GemvDequantGpuConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemv_dequant_gpu_refusal(c)) return reason;
    if (portable_mma(arch, c.dtype, PortableMma::kMma) == nullptr) return "the target has no such instruction";
    if (c.blocks * (shared_bytes_of(c) + kBlockShared) > arch.shared_bytes + kBlockShared) {
      return "more shared memory than a multiprocessor has";
    }
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Cut& cut : kCuts) {
      const GemvDequantGpuConfig config = make_config(p, *device.arch, cut);
      if (refusal_of(config, *device.arch) != nullptr) continue;
      found.push_back({{key_of(config, device.arch->target), {}}, cost_of(p, device, config, {})});
    }
  }
  // Weights of 4 bits in groups of 128, as most checkpoints have them.
  std::vector<GemvDequantGpuConfig> builtin_configs(const GemmProblem& usual, const ArchSpec& arch) const override {
    if (usual.a_dtype != DType::kBf16) return {};
    std::vector<GemvDequantGpuConfig> configs;
    GemmProblem p = usual;
    p.b_dtype = DType::kI4, p.scale_b.dtype = DType::kF16, p.scale_b.outer = 1, p.scale_b.k = 128;
    for (const int tokens : {1, 4, 16}) {
      p.m = tokens;
      const auto fits = [&](const Cut& cut) { return refusal_of(make_config(p, arch, cut), arch) == nullptr; };
      const auto* const cut = std::ranges::find_if(kCuts, fits);
      if (cut != std::end(kCuts)) configs.push_back(make_config(p, arch, *cut));
    }
    return configs;
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvDequantGpuConfig& c,
                 const Knobs&) const override {
    return gemv_dequant_gpu_cost(p, device, c);
  }

  std::string order_of(const GemvDequantGpuConfig& c, const Knobs&) const override {
    std::string order = fmt::format("lines{}x{}x{}:mma_w{}", c.warps, c.depth, c.steps, dtype_bits(c.weight));
    if (narrow_weights_promote(c)) order += fmt::format("_scaled{}", c.group);
    return order;
  }
  std::string label_of(const GemvDequantGpuConfig& c) const override {
    return fmt::format("{}-{}x{}", dtype_name(c.weight), c.rows, c.tokens);
  }
  int threads_of(const GemvDequantGpuConfig& c) const override { return gemv_dequant_gpu_threads(c); }
  int blocks_of(const GemvDequantGpuConfig& c) const override { return c.blocks; }
  int shared_bytes_of(const GemvDequantGpuConfig& c) const override {
    return gemv_dequant_gpu_shared_bytes(c, c.steps, 2);
  }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec& device, const GemvDequantGpuConfig& c,
                               const Knobs&, Kernel kernel) const override {
    Stage stage = gemm_scaled_stage(p, {}, 1, std::move(kernel));
    const int64_t blocks = grid_of(p, device, c);
    GemvDequantGpuArgs args{};
    std::memcpy(&args.product, stage.args.data(), sizeof(args.product));
    args.cut = gemv_dequant_gpu_cut(c, p.n, p.k, p.batch, blocks);
    static_assert(offsetof(GemvDequantGpuArgs, product) == 0);  // addresses stay where they were
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    stage.shape.grid = {static_cast<uint32_t>(blocks), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemv_dequant_gpu_threads(c));
    stage.shape.programmatic_edge = true;
    stage.shape.shared_bytes = static_cast<uint32_t>(
        gemv_dequant_gpu_shared_bytes(c, gemv_dequant_gpu_slice_steps(c, p.k), gemv_dequant_gpu_slices(c, p.k)));
    return {std::move(stage)};
  }
};

}  // namespace

const KernelFamily& gemv_dequant_gpu_family() {
  static const GemvDequantGpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
