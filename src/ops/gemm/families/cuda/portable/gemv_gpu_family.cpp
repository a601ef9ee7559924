// SPDX-License-Identifier: MIT
// gemv_gpu: at most eight rows of A, weights streamed once.
#include "gemm/portable/gemv_gpu_args.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/cuda/portable/weight_stream_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"
#include "ops/gpu_launch.hpp"

namespace tilewright {
namespace {

struct Cut {
  int rows, warps, depth, blocks;
};
constexpr Cut kCuts[] = {{16, 8, 4, 2}, {16, 8, 2, 4}, {16, 4, 4, 4}};
constexpr double kShortSteps = 1.02;  // of blocks that bring less than 32 KB a step, on long rows

GemvGpuConfig make_config(const GemmProblem& p, const Cut& cut) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  return {p.a_dtype, e.kind, e.activation, e.gate, e.d_dtype, cut.rows, cut.warps, cut.depth, cut.blocks};
}

class GemvGpuFamily final : public GpuFamily<GemvGpuConfig> {
 public:
  GemvGpuFamily() : GpuFamily("gemv_gpu", {ArchVendor::kNvidia, "portable/gemv_gpu.cuh", "GemmArgs"}) {}

  std::span<const std::string_view> knob_names() const override { return {}; }

 protected:
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (p.m > kGemvTokens) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kGemvTokens));
    if (p.batch_invariant) return unsupported("batch_invariant: more rows are summed in another order");
    if (const char* reason = gemv_gpu_refusal(make_config(p, kCuts[0]))) return unsupported(reason);
    if (portable_mma(*device.arch, p.a_dtype, PortableMma::kMma) == nullptr) {
      return unsupported(fmt::format("{} has no instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    if (Status s = check_rows_of_words(p); !s) return s;
    if (p.n / kCuts[0].rows + 1 > kMostGridBlocks / p.batch) {
      return unsupported(fmt::format("more than {} blocks", kMostGridBlocks));
    }
    return {};
  }

  const char* refusal_of(const GemvGpuConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemv_gpu_refusal(c)) return reason;
    if (portable_mma(arch, c.dtype, PortableMma::kMma) == nullptr) return "the target has no such instruction";
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Cut& cut : kCuts) {
      const GemvGpuConfig config = make_config(p, cut);
      if (refusal_of(config, *device.arch) != nullptr) continue;
      found.push_back({{key_of(config, device.arch->target), {}}, cost_of(p, device, config, {})});
    }
  }
  std::vector<GemvGpuConfig> builtin_configs(const GemmProblem& p, const ArchSpec&) const override {
    return {make_config(p, kCuts[0])};
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvGpuConfig& c, const Knobs&) const override {
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

  std::string order_of(const GemvGpuConfig& c, const Knobs&) const override {
    return fmt::format("interleaved{}x{}:mma", c.warps, c.depth);
  }
  std::string label_of(const GemvGpuConfig& c) const override { return fmt::format("{}x{}", c.rows, c.warps); }
  int threads_of(const GemvGpuConfig& c) const override { return gemv_gpu_threads(c); }
  int blocks_of(const GemvGpuConfig& c) const override { return c.blocks; }

  int shared_bytes_of(const GemvGpuConfig& c) const override { return gemv_gpu_shared_bytes(c); }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec&, const GemvGpuConfig& c, const Knobs&,
                               Kernel kernel) const override {
    Stage stage = gemm_stage(p, {}, 1, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(gemv_gpu_blocks(c, p.n) * p.batch), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemv_gpu_threads(c));
    stage.shape.programmatic_edge = true;
    stage.shape.shared_bytes = static_cast<uint32_t>(gemv_gpu_shared_bytes(c));
    return {std::move(stage)};
  }
};

}  // namespace

const KernelFamily& gemv_gpu_family() {
  static const GemvGpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
