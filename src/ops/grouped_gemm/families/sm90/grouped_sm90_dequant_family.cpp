// SPDX-License-Identifier: MIT
// grouped_sm90_dequant: groups of few rows of A in 16 bits times narrow weights on Hopper, which are widened in registers.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "grouped_gemm/sm90/dequant/grouped_sm90_dequant_args.hpp"
#include "grouped_gemm/sm90/grouped_sm90_args.hpp"
#include "ops/gemm/families/cuda/narrow_weights_family.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_cost.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_tiles.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/grouped_gemm/families/sm90/grouped_sm90_family.hpp"

namespace tilewright {
namespace {

constexpr double kSecondsToEntries = 2e-6;  // the groups' numbers, and their entries

bool grouped_dequant_fits(const GemmSm90DequantConfig& c) {
  static const int kSharedBytes = find_arch("sm_90a")->shared_bytes;
  return grouped_sm90_dequant_shared_bytes(c) <= kSharedBytes;
}
GemmSm90DequantConfig grouped_dequant_config(const GemmProblem& p, DequantTile tile, int scale_row) {
  tile.blocks = 1;
  GemmSm90DequantConfig c = dequant_config(p, tile, 1, scale_row);
  while (c.stages > 2 && !grouped_dequant_fits(c)) --c.stages;
  return c;
}

class GroupedSm90DequantFamily final : public GroupedSm90Family<GemmSm90DequantConfig> {
 public:
  GroupedSm90DequantFamily()
      : GroupedSm90Family("grouped_sm90_dequant", "sm90/dequant/grouped_sm90_dequant.cuh", "GroupedSm90DequantArgs") {}

  std::span<const std::string_view> knob_names() const override { return {}; }
  std::vector<KernelKey> builtin_keys(std::string_view) const override { return {}; }

 protected:
  bool reads_packed() const override { return true; }
  Status check_product(const GemmProblem& g) const override { return check_narrow_product(g); }
  Status check_sizes(const GroupedGemmProblem& p, const DeviceSpec& device) const override {
    const GemmProblem& g = p.gemm;
    const GemmSm90DequantConfig least = grouped_dequant_config(g, least_dequant_tile(g), 0);
    if (const char* reason = grouped_sm90_dequant_refusal(least)) return unsupported(reason);
    if (Status s = check_dequant_operands(g, device); !s) return s;
    int widest = 0;
    for (const DequantTile& tile : dequant_tiles_of(g)) {
      const GemmSm90DequantConfig c = grouped_dequant_config(g, tile, 0);
      if (refusal_of(c, *device.arch) == nullptr) widest = std::max(widest, c.tokens);
    }
    if (widest == 0) return unsupported("no tile has a kernel for these types");
    return check_entries(p, widest);
  }
  Status check_pair(const GroupedGemmProblem& p, const DeviceSpec&, const GemmSm90DequantConfig& c,
                    const Knobs&) const override {
    if (Status s = check_dequant_weights(p.gemm, c); !s) return s;
    return check_entries(p, c.tokens);
  }
  const char* refusal_of(const GemmSm90DequantConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = grouped_sm90_dequant_refusal(c)) return reason;
    if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
    if (!grouped_dequant_fits(c)) return "more shared memory than a multiprocessor has";
    return nullptr;
  }

  void add_candidates(const GroupedGemmProblem& p, const DeviceSpec& device,
                      std::vector<Candidate>& found) const override {
    for (const DequantTile& tile : dequant_tiles_of(p.gemm)) {
      for (const int scale_row : {0, dequant_scale_row(p.gemm)}) {
        const GemmSm90DequantConfig c = grouped_dequant_config(p.gemm, tile, scale_row);
        if (scale_row != 0 && c.stages < kLeastStages) continue;
        if (refusal_of(c, *device.arch) != nullptr || !check_entries(p, c.tokens)) continue;
        if (found.empty() || !(found.back().step.key == key_of(c, device.arch->target))) {
          found.push_back({{key_of(c, device.arch->target), {}}, cost_of(p, device, c, {})});
        }
      }
    }
  }
  // A batch of as many entries as groups are likely to have.
  double cost_of(const GroupedGemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                 const Knobs&) const override {
    const double groups = std::max(1.0, likely_groups(p));
    const auto rows = static_cast<int64_t>(std::max(1.0, std::ceil(static_cast<double>(p.likely_rows()) / groups)));
    const GroupedRows cut = grouped_rows(static_cast<int>(rows), kGroupedDequantStep, c.tokens);
    GemmProblem batch = p.gemm;
    batch.m = std::min<int64_t>(rows, c.tokens);
    batch.batch = std::max<int64_t>(1, static_cast<int64_t>(groups * cut.tiles));
    batch.stride_a_batch = batch.m * batch.k, batch.stride_d_batch = batch.m * batch.n;
    return kSecondsToEntries + gemm_sm90_dequant_cost(batch, device, c);
  }
  int64_t workspace_of(const GroupedGemmProblem& p, const DeviceSpec&, const GemmSm90DequantConfig& c,
                       const Knobs&) const override {
    return dequant_workspace_bytes(p.gemm, c, most_entries(p, c.tokens));
  }
  std::string entry_order_of(const GemmSm90DequantConfig& c) const override { return dequant_order(c); }
  std::string label_of(const GemmSm90DequantConfig& c) const override {
    return fmt::format("{}-{}x{}", dtype_name(c.weight), c.rows, c.tokens);
  }
  int threads_of(const GemmSm90DequantConfig& c) const override { return gemm_sm90_dequant_threads(c); }
  int shared_bytes_of(const GemmSm90DequantConfig& c) const override { return grouped_sm90_dequant_shared_bytes(c); }

  Stage stage_of(const GroupedGemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c, const Knobs&,
                 Kernel kernel) const override {
    GemmSm90SkinnyArgs product{};
    product.stage_tokens = c.tokens;
    product.batch_a = true, product.batch_b = p.gemm.stride_b_batch != 0;
    Stage stage = dequant_stage(p.gemm, c, product, 0, std::move(kernel));

    // The arguments of the product come first: their places stay.
    static_assert(offsetof(GroupedSm90DequantArgs, product) == 0);
    static_assert(sizeof(GroupedSm90DequantArgs) <= kMaxArgBytes);
    GroupedSm90DequantArgs args{};
    std::memcpy(&args.product, stage.args.data(), sizeof(args.product));
    args.groups = group_args(p);
    args.most_entries = static_cast<int>(most_entries(p, c.tokens));
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    add_group_patches(stage, p, offsetof(GroupedSm90DequantArgs, groups));
    stage.shape.grid = {static_cast<uint32_t>(std::max(device.units, 1)), 1, 1};
    return stage;
  }

 private:
  static constexpr int kLeastStages = 3;  // with fewer in flight memory rests

  // However rows are spread among groups that do not overlap.
  static int64_t most_entries(const GroupedGemmProblem& p, int tokens) {
    const bool masked = p.mode == GroupMode::kMasked;
    const int64_t rows = masked ? p.gemm.m * p.gemm.batch : p.gemm.m;
    return grouped_dequant_entries(p.gemm.batch, rows, p.gemm.m, tokens);
  }
  static Status check_entries(const GroupedGemmProblem& p, int tokens) {
    const int64_t most = most_entries(p, tokens);
    if (const int allowed = grouped_dequant_most_entries(tokens); most > allowed) {
      return unsupported(
          fmt::format("groups may have {} pieces of {} rows, allowed: at most {}", most, tokens, allowed));
    }
    // The smallest tile makes the most.
    if (p.gemm.n / 64 + 1 > kMaxCopiedSize / std::max<int64_t>(most, 1)) return unsupported("more than 2^31 tiles");
    return {};
  }
};

}  // namespace

const KernelFamily& grouped_sm90_dequant_family() {
  static const GroupedSm90DequantFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
