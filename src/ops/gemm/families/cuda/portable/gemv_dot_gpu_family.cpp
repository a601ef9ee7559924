// SPDX-License-Identifier: MIT
// gemv_dot_gpu: one or two rows of A, a warp a row of the weights.
#include "gemm/portable/gemv_dot_gpu_args.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/cuda/portable/weight_stream_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"
#include "ops/gpu_launch.hpp"

namespace tilewright {
namespace {

struct Cut {
  int warps, depth, blocks;
};
constexpr Cut kCuts[] = {{4, 4, 8}, {4, 8, 4}, {8, 4, 4}};
constexpr double kWholeLines = 0.955;  // of the time of kernels that read half a line of 128 bytes at once
constexpr double kTwoTokens = 1.06;    // twice the reads of A and the sums
constexpr double kOtherCut = 1.01;     // untuned, the first cut goes first

GemvDotGpuConfig make_config(const GemmProblem& p, const Cut& cut) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  return {p.a_dtype, e.kind,    e.activation,
          e.gate,    e.d_dtype, static_cast<int>(std::min<int64_t>(p.m, kGemvDotTokens)),
          cut.warps, cut.depth, cut.blocks};
}

class GemvDotGpuFamily final : public GpuFamily<GemvDotGpuConfig> {
 public:
  GemvDotGpuFamily() : GpuFamily("gemv_dot_gpu", {ArchVendor::kNvidia, "portable/gemv_dot_gpu.cuh", "GemmArgs"}) {}

  std::span<const std::string_view> knob_names() const override { return {}; }

 protected:
  Status check_problem(const GemmProblem& p, const DeviceSpec&) const override {
    if (p.m > kGemvDotTokens) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kGemvDotTokens));
    if (p.batch_invariant) return unsupported("batch_invariant: more rows are summed in another order");
    if (const char* reason = gemv_dot_gpu_refusal(make_config(p, kCuts[0]))) return unsupported(reason);
    if (Status s = check_rows_of_words(p); !s) return s;
    if (p.n / kCuts[0].warps + 1 > kMostGridBlocks / p.batch) {
      return unsupported(fmt::format("more than {} blocks", kMostGridBlocks));
    }
    return {};
  }

  const char* refusal_of(const GemvDotGpuConfig& c, const ArchSpec&) const override { return gemv_dot_gpu_refusal(c); }
  Status check_pair(const GemmProblem& p, const DeviceSpec&, const GemvDotGpuConfig& c, const Knobs&) const override {
    if (p.m > c.tokens) return unsupported(fmt::format("M = {}, the kernel takes {}", p.m, c.tokens));
    return {};
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Cut& cut : kCuts) {
      const GemvDotGpuConfig config = make_config(p, cut);
      found.push_back({{key_of(config, device.arch->target), {}}, cost_of(p, device, config, {})});
    }
  }
  std::vector<GemvDotGpuConfig> builtin_configs(const GemmProblem& p, const ArchSpec&) const override {
    GemmProblem one = p;
    one.m = 1;
    return {make_config(one, kCuts[0])};
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvDotGpuConfig& c,
                 const Knobs&) const override {
    WeightStream stream;
    stream.bytes = gemm_bytes_moved(p);
    stream.blocks = static_cast<double>(gemv_dot_gpu_blocks(c, p.n) * p.batch);
    stream.resident = c.blocks;
    stream.block_bytes = static_cast<double>(c.warps * p.k * dtype_bits(c.dtype)) / 8;
    stream.block_in_flight = std::min(stream.block_bytes, 2.0 * c.warps * c.depth * kGemvDotPieceBytes);
    const bool first = c.warps == kCuts[0].warps && c.depth == kCuts[0].depth;
    return weight_stream_seconds(device, stream) * kWholeLines * (c.tokens > 1 ? kTwoTokens : 1) *
           (first ? 1 : kOtherCut);
  }

  std::string order_of(const GemvDotGpuConfig&, const Knobs&) const override { return "lanes:fma"; }
  std::string label_of(const GemvDotGpuConfig& c) const override { return fmt::format("{}x{}", c.tokens, c.warps); }
  int threads_of(const GemvDotGpuConfig& c) const override { return gemv_dot_gpu_threads(c); }
  int blocks_of(const GemvDotGpuConfig& c) const override { return c.blocks; }

  int shared_bytes_of(const GemvDotGpuConfig& c) const override { return gemv_dot_gpu_shared_bytes(c); }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec&, const GemvDotGpuConfig& c, const Knobs&,
                               Kernel kernel) const override {
    Stage stage = gemm_stage(p, {}, 1, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(gemv_dot_gpu_blocks(c, p.n) * p.batch), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemv_dot_gpu_threads(c));
    stage.shape.shared_bytes = static_cast<uint32_t>(gemv_dot_gpu_shared_bytes(c));
    stage.shape.programmatic_edge = true;
    return {std::move(stage)};
  }
};

}  // namespace

const KernelFamily& gemv_dot_gpu_family() {
  static const GemvDotGpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
