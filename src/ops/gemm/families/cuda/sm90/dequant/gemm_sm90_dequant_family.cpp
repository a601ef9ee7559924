// SPDX-License-Identifier: MIT
// gemm_sm90_dequant: few rows of A in 16 bits times narrow weights on Hopper, which are widened in registers.
#include <algorithm>

#include "ops/gemm/families/cuda/narrow_weights_family.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_cost.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_tiles.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/cuda/sm90/sm90_cut.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

constexpr int kDequantSplits[] = {0, 1, 2, 4, 8}, kDequantMeetings[] = {2, 3, 4, 6, 8};
constexpr int kLeastWholeStages = 3;

GemmSm90DequantConfig make_config(const GemmProblem& p, const DequantTile& tile, int splits, int scale_row,
                                  int cluster = 1) {
  GemmSm90DequantConfig c = dequant_config(p, tile, splits, scale_row);
  c.cluster = cluster;
  while (c.stages > 2 && !dequant_fits_shared(c)) --c.stages;
  return c;
}

class GemmSm90DequantFamily final : public NarrowWeightsFamily<GemmSm90DequantConfig> {
 public:
  GemmSm90DequantFamily()
      : NarrowWeightsFamily("gemm_sm90_dequant",
                            {ArchVendor::kNvidia, "sm90/dequant/gemm_sm90_dequant.cuh", "GemmSm90DequantArgs"}) {}

 protected:
  bool reads_packed() const override { return true; }

  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (Status s = check_dequant_problem(p, device); !s) return s;
    const int most = p.gate == GateMode::kSeparated ? 64 : kDequantMostTokens;
    if (p.m > most) return unsupported(fmt::format("M = {}, allowed with this gate: at most {}", p.m, most));
    // The smallest tile makes the most.
    if (p.n / 64 + 1 > kMaxCopiedSize / (p.k / 64 + 1) / p.batch) return unsupported("more than 2^31 tiles");
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                    const Knobs&) const override {
    if (Status s = check_rows(p, c); !s) return s;
    if (Status s = check_dequant_weights(p, c); !s) return s;
    return check_sm90_cut(cut_of(p, device, c), c.splits, p.k);
  }

  const char* refusal_of(const GemmSm90DequantConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemm_sm90_dequant_refusal(c)) return reason;
    return dequant_target_refusal(c, arch);
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const DequantTile& tile : dequant_tiles_of(p)) {
      // Rows that are not there cost what others do: the fewest that hold M.
      if (tile.tokens < p.m || (tile.tokens > 8 && tile.tokens / 2 >= p.m)) continue;
      for (const int parts : kDequantMeetings) {
        add_with_few_stages(p, device, tile, make_config(p, tile, parts, 0, parts), found);
      }
      for (const int splits : kDequantSplits) {
        add_with_few_stages(p, device, tile, make_config(p, tile, splits, 0), found);
        const GemmSm90DequantConfig whole = make_config(p, tile, splits, dequant_scale_row(p));
        // With fewer stages in flight memory rests.
        if (whole.scale_row != 0 && whole.stages >= kLeastWholeStages) add_candidate(p, device, whole, found);
      }
    }
  }
  std::vector<GemmSm90DequantConfig> builtin_configs(const GemmProblem& usual, const ArchSpec&) const override {
    if (usual.a_dtype != DType::kBf16) return {};
    std::vector<GemmSm90DequantConfig> configs;
    GemmProblem p = usual;
    for (const DType weight : {DType::kF8E4M3, DType::kF4E2M1}) {
      p.b_dtype = weight;
      if (weight == DType::kF4E2M1) p.scale_b.dtype = DType::kE8M0, p.scale_b.outer = 1, p.scale_b.k = 32;
      for (const int tokens : {16, 64}) {
        const auto holds = [&](const DequantTile& tile) { return tile.tokens == tokens; };
        configs.push_back(make_config(p, *std::ranges::find_if(dequant_tiles_of(p), holds), 1, 0));
      }
    }
    return configs;
  }

  int64_t workspace_of(const GemmProblem& p, const DeviceSpec&, const GemmSm90DequantConfig& c,
                       const Knobs&) const override {
    return dequant_workspace_bytes(p, c, p.stride_a_batch != 0 ? p.batch : 1);
  }
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                 const Knobs&) const override {
    return gemm_sm90_dequant_cost(p, device, c);
  }
  std::string order_of(const GemmSm90DequantConfig& c, const Knobs&) const override {
    const std::string order = dequant_order(c);
    if (c.splits == 1) return "seq:" + order;
    if (c.splits > 1) return fmt::format("split{}:{}", c.splits, order);
    return fmt::format("even{}x{}:{}", c.rows, c.blocks, order);
  }
  std::string label_of(const GemmSm90DequantConfig& c) const override {
    return fmt::format("{}-{}x{}", dtype_name(c.weight), c.rows, c.tokens);
  }
  int threads_of(const GemmSm90DequantConfig& c) const override { return gemm_sm90_dequant_threads(c); }
  int blocks_of(const GemmSm90DequantConfig& c) const override { return c.blocks; }
  int shared_bytes_of(const GemmSm90DequantConfig& c) const override { return gemm_sm90_dequant_shared_bytes(c); }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                               const Knobs&, Kernel kernel) const override {
    const GemmSm90SkinnyCut cut = cut_of(p, device, c);
    GemmSm90SkinnyArgs args{};
    args.batch_a = p.stride_a_batch != 0, args.batch_b = p.stride_b_batch != 0;
    args.share = static_cast<int>(cut.share), args.extra = static_cast<int>(cut.extra);
    args.stage_tokens = static_cast<int>(p.m);
    Stage stage = dequant_stage(p, c, args, cut.exchange_bytes, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(cut.clusters), 1, 1};
    stage.shape.shared_bytes = static_cast<uint32_t>(gemm_sm90_dequant_shared_bytes(c));
    return {std::move(stage)};
  }

 private:
  void add_with_few_stages(const GemmProblem& p, const DeviceSpec& device, const DequantTile& tile,
                           GemmSm90DequantConfig config, std::vector<Candidate>& found) const {
    add_candidate(p, device, config, found);
    if (tile.few_stages == 0 || tile.few_stages >= config.stages) return;
    config.stages = tile.few_stages;
    add_candidate(p, device, config, found);
  }
  void add_candidate(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& config,
                     std::vector<Candidate>& found) const {
    if (refusal_of(config, *device.arch) != nullptr) return;
    const GemmSm90SkinnyCut cut = cut_of(p, device, config);
    if (!check_sm90_cut(cut, config.splits, p.k)) return;
    // Parts that wait for a second round of blocks win nothing.
    const GemmSm90SkinnyConfig sums = gemm_sm90_dequant_sums(config);
    if (config.splits > 1 && cut.tiles * config.splits > gemm_sm90_skinny_parts_at_a_time(sums, cut, device.units))
      return;
    found.push_back({{key_of(config, device.arch->target), {}}, gemm_sm90_dequant_cost(p, device, config)});
  }
  static GemmSm90SkinnyCut cut_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c) {
    return gemm_sm90_skinny_cut(gemm_sm90_dequant_sums(c), p.n, p.k, p.batch, device.units);
  }
};

}  // namespace

const KernelFamily& gemm_sm90_dequant_family() {
  static const GemmSm90DequantFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
